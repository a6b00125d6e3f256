#include "kernels/cpu/kv_kernels.h"

#include <cmath>

#include "kernels/cpu/highway_targets.h"
#include "kernels/cpu/kv_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_kernels.cc"
#include <hwy/foreach_target.h>
// clang-format off: highway.h must follow foreach_target.h
#include <hwy/highway.h>

#include "kernels/cpu/activations-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace antiphon::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sixteen 32-bit lanes in one vector or several.
using D = hn::CappedTag<float, kKvPanel>;
using DI = hn::RebindToSigned<D>;
using D16 = hn::Repartition<int16_t, DI>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using V16 = hn::Vec<D16>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kVectors = static_cast<size_t>(kKvPanel) / kLanes;

HWY_INLINE V LoadFloats(const float* p) { return hn::LoadU(D(), p); }
HWY_INLINE V LoadFloats(const hwy::bfloat16_t* p) {
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  return hn::PromoteTo(D(), hn::LoadU(d16, p));
}

// Packs n floats (a whole number of vectors) to 16 bits: x ~ packed * the returned scale.
HWY_INLINE float PackTo16(const float* x, int32_t n, int16_t* packed) {
  const D d;
  V largest = hn::Zero(d);
  for (int32_t i = 0; i < n; i += static_cast<int32_t>(kLanes)) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + i)));
  }
  const float peak = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (!(peak > 0.0F)) {
    for (int32_t i = 0; i < n; ++i) packed[i] = 0;
    return 0.0F;
  }
  const V factor = hn::Set(d, 32767.0F / peak);
  const hn::Rebind<int16_t, DI> half;
  for (int32_t i = 0; i < n; i += static_cast<int32_t>(kLanes)) {
    const VI rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), factor));
    hn::StoreU(hn::DemoteTo(half, rounded), half, packed + i);
  }
  return peak / 32767.0F;
}

// Fetches the lines that `bytes` at p touch, well before they are read: the hardware's own
// prefetchers stop at a chunk's end, which alone costs 40 % of the bandwidth.
HWY_INLINE void Fetch(const std::byte* p, int32_t bytes) {
  for (int32_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

// A pair of 16-bit numbers in every lane.
HWY_INLINE V16 BroadcastPair(const int16_t* pair) {
  int32_t both;
  __builtin_memcpy(&both, pair, sizeof(both));
  return hn::BitCast(D16(), hn::Set(DI(), both));
}

// 2 x 16 bytes, widened.
HWY_INLINE V16 LoadInt8(const int8_t* p) {
  const hn::Rebind<int8_t, D16> d8;
  return hn::PromoteTo(D16(), hn::LoadU(d8, p));
}
struct Nibbles {
  V16 low, high;
};
HWY_INLINE Nibbles LoadInt4(const uint8_t* p) {
  const hn::Rebind<uint8_t, D16> d8;
  const V16 both = hn::PromoteTo(D16(), hn::LoadU(d8, p));
  return {hn::And(both, hn::Set(D16(), 15)), hn::ShiftRight<4>(both)};
}

// Four 16-bit numbers in every 64 bits.
HWY_INLINE V16 BroadcastFour(const int16_t* four) {
  int64_t all;
  __builtin_memcpy(&all, four, sizeof(all));
  return hn::BitCast(D16(), hn::Set(hn::Repartition<int64_t, DI>(), all));
}

// Sums of pairs of products; on ARM they arrive in two halves.
struct PairSum {
  VI even, odd;
  // Spelled out: a defaulted constructor would not be compiled for the instruction set.
  HWY_INLINE PairSum() : even(hn::Zero(DI())), odd(hn::Zero(DI())) {}
  HWY_INLINE void Add(V16 a, V16 b) { even = hn::ReorderWidenMulAccumulate(DI(), a, b, even, odd); }
  HWY_INLINE V Total() const { return hn::ConvertTo(D(), hn::RearrangeToOddPlusEven(even, odd)); }
};

// Sums over sixteen lanes of 64 bits, each a nibble group's four products: two vectors for one of
// totals.
struct NibbleSum {
  PairSum halves[kVectors][2];
  HWY_INLINE NibbleSum() {}  // spelled out as above; NOLINT(modernize-use-equals-default)
  // 64 bytes of nibbles times the eight numbers that `first` and `second` hold.
  HWY_INLINE void Add(const uint8_t* p, V16 first, V16 second) {
    for (size_t v = 0; v < kVectors; ++v) {
      for (size_t half = 0; half < 2; ++half) {
        const Nibbles nibbles = LoadInt4(p + (2 * v + half) * 2 * kLanes);
        halves[v][half].Add(nibbles.low, first);
        halves[v][half].Add(nibbles.high, second);
      }
    }
  }
  HWY_INLINE V Total(size_t v) const {
    const VI low = hn::RearrangeToOddPlusEven(halves[v][0].even, halves[v][0].odd);
    const VI high = hn::RearrangeToOddPlusEven(halves[v][1].even, halves[v][1].odd);
    const DI d;
    return hn::ConvertTo(D(), hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)));
  }
};

template <typename Key>
HWY_INLINE void FloatScores(const KvQuery& query, const Key* keys, const std::byte* ahead,
                            float* scores) {
  const D d;
  const int32_t width = KvLayout(query.head_dim).key_width;
  V sums[kKvPanels][kVectors];
  for (auto& panel : sums) {
    for (V& sum : panel) sum = hn::Zero(d);
  }
  for (int32_t c = 0; c < width; ++c) {
    constexpr auto kBytes = static_cast<int32_t>(kKvPage * sizeof(Key));
    Fetch(ahead + c * kBytes, kBytes);
    const V q = hn::Set(d, query.q[c]);
    for (int32_t p = 0; p < kKvPanels; ++p) {
      for (size_t v = 0; v < kVectors; ++v) {
        const Key* key = keys + (p * width + c) * kKvPanel + v * kLanes;
        sums[p][v] = hn::MulAdd(q, LoadFloats(key), sums[p][v]);
      }
    }
  }
  for (int32_t p = 0; p < kKvPanels; ++p) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[p][v], d, scores + p * kKvPanel + static_cast<int32_t>(v * kLanes));
    }
  }
}

HWY_INLINE void Int8Scores(const KvQuery& query, const int8_t* keys, const std::byte* ahead,
                           float* scores) {
  const D d;
  const KvLayout layout(query.head_dim);
  const int32_t pairs = layout.key_width / 2;
  PairSum sums[kKvPanels][kVectors];
  for (int32_t c = 0; c < pairs; ++c) {
    Fetch(ahead + c * 2 * kKvPage, 2 * kKvPage);
    const V16 q = BroadcastPair(query.packed + 2 * c);
    for (int32_t p = 0; p < kKvPanels; ++p) {
      for (size_t v = 0; v < kVectors; ++v) {
        sums[p][v].Add(LoadInt8(keys + (p * pairs + c) * 2 * kKvPanel + v * 2 * kLanes), q);
      }
    }
  }
  const auto* scales = reinterpret_cast<const hwy::bfloat16_t*>(keys + layout.int8_key_scales());
  Fetch(ahead + layout.int8_key_scales(), 2 * kKvPage);
  const V scale = hn::Set(d, query.scale);
  for (int32_t p = 0; p < kKvPanels; ++p) {
    for (size_t v = 0; v < kVectors; ++v) {
      const int32_t at = p * kKvPanel + static_cast<int32_t>(v * kLanes);
      const V position_scale = hn::Mul(scale, LoadFloats(scales + at));
      hn::StoreU(hn::Mul(sums[p][v].Total(), position_scale), d, scores + at);
    }
  }
}

// The channels' scales go into the query, their minima into one constant of the page.
HWY_INLINE void Int4Scores(const KvQuery& query, const uint8_t* keys, const std::byte* ahead,
                           float* scores) {
  const D d;
  const KvLayout layout(query.head_dim);
  const int32_t width = layout.key_width, groups = width / 8;
  const auto* scales = reinterpret_cast<const hwy::bfloat16_t*>(keys + layout.int4_key_scales());
  HWY_ALIGN float scaled[kMaxHeadDim + kKvPanel];
  HWY_ALIGN int16_t packed[kMaxHeadDim + kKvPanel];
  V constant = hn::Zero(d);
  for (int32_t c = 0; c < width; c += static_cast<int32_t>(kLanes)) {
    const V q = hn::Load(d, query.q + c);
    // Past the width lies another array, whose bits may be no number.
    const auto inside = hn::FirstN(d, static_cast<size_t>(width - c));
    const V scale = hn::IfThenElseZero(inside, LoadFloats(scales + c));
    const V minimum = hn::IfThenElseZero(inside, LoadFloats(scales + width + c));
    hn::Store(hn::Mul(q, scale), d, scaled + c);
    constant = hn::MulAdd(q, minimum, constant);
  }
  Fetch(ahead + layout.int4_key_scales(), 4 * width);
  const float shift = hn::GetLane(hn::SumOfLanes(d, constant));
  const float scale = PackTo16(scaled, width, packed);
  NibbleSum sums[kKvPanels];
  for (int32_t g = 0; g < groups; ++g) {
    Fetch(ahead + g * 4 * kKvPage, 4 * kKvPage);
    const V16 first = BroadcastFour(packed + 8 * g), second = BroadcastFour(packed + 8 * g + 4);
    for (int32_t p = 0; p < kKvPanels; ++p) {
      sums[p].Add(keys + (p * groups + g) * 4 * kKvPanel, first, second);
    }
  }
  for (int32_t p = 0; p < kKvPanels; ++p) {
    for (size_t v = 0; v < kVectors; ++v) {
      const V score = hn::MulAdd(sums[p].Total(v), hn::Set(d, scale), hn::Set(d, shift));
      hn::StoreU(score, d, scores + p * kKvPanel + static_cast<int32_t>(v * kLanes));
    }
  }
}

void PrepareQueryTarget(const float* q, int32_t head_dim, KvQuery* query) {
  query->head_dim = head_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  const int32_t width = (head_dim + kKvPanel - 1) / kKvPanel * kKvPanel;
  for (int32_t i = 0; i < head_dim; ++i) query->q[i] = q[i] * scale;
  for (int32_t i = head_dim; i < width; ++i) query->q[i] = 0.0F;
  query->scale = PackTo16(query->q, width, query->packed);
}

void PageScoresTarget(const KvQuery& query, const KvChunk& chunk, const std::byte* ahead,
                      float* scores) {
  switch (chunk.format) {
    case KvFormat::kF32:
      return FloatScores(query, reinterpret_cast<const float*>(chunk.keys), ahead, scores);
    case KvFormat::kBf16:
      return FloatScores(query, reinterpret_cast<const hwy::bfloat16_t*>(chunk.keys), ahead,
                         scores);
    case KvFormat::kInt8:
      return Int8Scores(query, reinterpret_cast<const int8_t*>(chunk.keys), ahead, scores);
    case KvFormat::kInt4:
      return Int4Scores(query, reinterpret_cast<const uint8_t*>(chunk.keys), ahead, scores);
  }
}

float SoftmaxWeightsTarget(float* scores, int64_t begin, int64_t end, int64_t count) {
  const D d;
  const V lowest = hn::Set(d, -INFINITY);
  for (int64_t i = 0; i < begin; ++i) scores[i] = -INFINITY;
  for (int64_t i = end; i < count; ++i) scores[i] = -INFINITY;
  V largest = lowest;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(kLanes)) {
    largest = hn::Max(largest, hn::LoadU(d, scores + i));
  }
  const V peak = hn::Set(d, hn::GetLane(hn::MaxOfLanes(d, largest)));
  V total = hn::Zero(d);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(kLanes)) {
    const V score = hn::LoadU(d, scores + i);
    const V weight =
        hn::IfThenZeroElse(hn::Eq(score, lowest), ExpNegative(d, hn::Sub(score, peak)));
    total = hn::Add(total, weight);
    hn::StoreU(weight, d, scores + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Blocks of 64 channels keep four sums in flight.
constexpr int32_t kMixBlock = 4;

template <int kBlock, typename Value>
HWY_INLINE void MixFloatBlock(const float* weights, int32_t begin, int32_t end, int32_t width,
                              const Value* values, const std::byte* ahead, float* y) {
  const D d;
  constexpr auto kBytes = static_cast<int32_t>(kBlock * kKvPanel * sizeof(Value));
  V sums[kBlock][kVectors];
  for (int32_t b = 0; b < kBlock; ++b) {
    for (size_t v = 0; v < kVectors; ++v) sums[b][v] = hn::LoadU(d, y + b * kKvPanel + v * kLanes);
  }
  for (int32_t p = begin; p < end; ++p) {
    Fetch(ahead + p * width * static_cast<int32_t>(sizeof(Value)), kBytes);
    const V weight = hn::Set(d, weights[p]);
    for (int32_t b = 0; b < kBlock; ++b) {
      for (size_t v = 0; v < kVectors; ++v) {
        const V value = LoadFloats(values + p * width + b * kKvPanel + v * kLanes);
        sums[b][v] = hn::MulAdd(weight, value, sums[b][v]);
      }
    }
  }
  for (int32_t b = 0; b < kBlock; ++b) {
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[b][v], d, y + b * kKvPanel + v * kLanes);
  }
}

template <typename Value>
HWY_INLINE void MixFloats(const float* weights, int32_t begin, int32_t end, int32_t width,
                          const Value* values, const std::byte* ahead, float* y) {
  int32_t c = 0;
  for (; c + kMixBlock * kKvPanel <= width; c += kMixBlock * kKvPanel) {
    MixFloatBlock<kMixBlock>(weights, begin, end, width, values + c,
                             ahead + c * static_cast<int32_t>(sizeof(Value)), y + c);
  }
  for (; c < width; c += kKvPanel) {
    MixFloatBlock<1>(weights, begin, end, width, values + c,
                     ahead + c * static_cast<int32_t>(sizeof(Value)), y + c);
  }
}

// weights times the positions' scales, as 16 bits; returns what one unit is.
HWY_INLINE float PackWeights(const float* weights, const hwy::bfloat16_t* scales, int16_t* packed) {
  const D d;
  HWY_ALIGN float scaled[kKvPage];
  for (size_t p = 0; p < kKvPage; p += kLanes) {
    const V weight = hn::LoadU(d, weights + p);
    const V product = hn::Mul(weight, LoadFloats(scales + p));
    // What a position out of sight holds must not matter, be it a number or not.
    hn::Store(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), product), d, scaled + p);
  }
  return PackTo16(scaled, kKvPage, packed);
}

template <int kBlock>
HWY_INLINE void MixInt8Block(const int16_t* packed, float unit, int32_t width, const int8_t* values,
                             const std::byte* ahead, float* y) {
  const D d;
  PairSum sums[kBlock][kVectors];
  for (int32_t pair = 0; pair < kKvPage / 2; ++pair) {
    Fetch(ahead + pair * 2 * width, kBlock * 2 * kKvPanel);
    const V16 weight = BroadcastPair(packed + 2 * pair);
    for (int32_t b = 0; b < kBlock; ++b) {
      for (size_t v = 0; v < kVectors; ++v) {
        const int8_t* at = values + pair * 2 * width + b * 2 * kKvPanel + v * 2 * kLanes;
        sums[b][v].Add(LoadInt8(at), weight);
      }
    }
  }
  for (int32_t b = 0; b < kBlock; ++b) {
    for (size_t v = 0; v < kVectors; ++v) {
      float* out = y + b * kKvPanel + v * kLanes;
      hn::StoreU(hn::MulAdd(sums[b][v].Total(), hn::Set(d, unit), hn::LoadU(d, out)), d, out);
    }
  }
}

template <int kBlock>
HWY_INLINE void MixInt4Block(const int16_t* packed, float unit, float shift, int32_t width,
                             const uint8_t* values, const std::byte* ahead, float* y) {
  const D d;
  NibbleSum sums[kBlock];
  for (int32_t g = 0; g < kKvPage / 8; ++g) {
    Fetch(ahead + g * 4 * width, kBlock * 4 * kKvPanel);
    const V16 first = BroadcastFour(packed + 8 * g), second = BroadcastFour(packed + 8 * g + 4);
    for (int32_t b = 0; b < kBlock; ++b) {
      sums[b].Add(values + g * 4 * width + b * 4 * kKvPanel, first, second);
    }
  }
  for (int32_t b = 0; b < kBlock; ++b) {
    for (size_t v = 0; v < kVectors; ++v) {
      float* out = y + b * kKvPanel + v * kLanes;
      const V centred = hn::Sub(sums[b].Total(v), hn::Set(d, shift));
      hn::StoreU(hn::MulAdd(centred, hn::Set(d, unit), hn::LoadU(d, out)), d, out);
    }
  }
}

HWY_INLINE void MixInt8(const float* weights, const KvLayout& layout, const int8_t* values,
                        const std::byte* ahead, float* y) {
  HWY_ALIGN int16_t packed[kKvPage];
  Fetch(ahead + layout.int8_value_scales(), 2 * kKvPage);
  const float unit = PackWeights(
      weights, reinterpret_cast<const hwy::bfloat16_t*>(values + layout.int8_value_scales()),
      packed);
  const int32_t width = layout.value_width;
  int32_t c = 0;
  for (; c + kMixBlock * kKvPanel <= width; c += kMixBlock * kKvPanel) {
    MixInt8Block<kMixBlock>(packed, unit, width, values + 2 * c, ahead + 2 * c, y + c);
  }
  for (; c < width; c += kKvPanel) {
    MixInt8Block<1>(packed, unit, width, values + 2 * c, ahead + 2 * c, y + c);
  }
}

HWY_INLINE void MixInt4(const float* weights, const KvLayout& layout, const uint8_t* values,
                        const std::byte* ahead, float* y) {
  HWY_ALIGN int16_t packed[kKvPage];
  Fetch(ahead + layout.int4_value_scales(), 2 * kKvPage);
  const float unit = PackWeights(
      weights, reinterpret_cast<const hwy::bfloat16_t*>(values + layout.int4_value_scales()),
      packed);
  int32_t total = 0;
  for (const int16_t weight : packed) total += weight;
  const auto shift = 8.0F * static_cast<float>(total);
  const int32_t width = layout.value_width;
  int32_t c = 0;
  for (; c + kMixBlock * kKvPanel <= width; c += kMixBlock * kKvPanel) {
    MixInt4Block<kMixBlock>(packed, unit, shift, width, values + 4 * c, ahead + 4 * c, y + c);
  }
  for (; c < width; c += kKvPanel) {
    MixInt4Block<1>(packed, unit, shift, width, values + 4 * c, ahead + 4 * c, y + c);
  }
}

void MixPageTarget(const float* weights, int32_t begin, int32_t end, int32_t head_dim,
                   const KvChunk& chunk, const std::byte* ahead, float* y) {
  const KvLayout layout(head_dim);
  switch (chunk.format) {
    case KvFormat::kF32:
      return MixFloats(weights, begin, end, layout.value_width,
                       reinterpret_cast<const float*>(chunk.values), ahead, y);
    case KvFormat::kBf16:
      return MixFloats(weights, begin, end, layout.value_width,
                       reinterpret_cast<const hwy::bfloat16_t*>(chunk.values), ahead, y);
    case KvFormat::kInt8:
      return MixInt8(weights, layout, reinterpret_cast<const int8_t*>(chunk.values), ahead, y);
    case KvFormat::kInt4:
      return MixInt4(weights, layout, reinterpret_cast<const uint8_t*>(chunk.values), ahead, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon::kernels::cpu {

HWY_EXPORT(PrepareQueryTarget);
HWY_EXPORT(PageScoresTarget);
HWY_EXPORT(SoftmaxWeightsTarget);
HWY_EXPORT(MixPageTarget);

void PrepareQuery(const float* q, int32_t head_dim, KvQuery* query) noexcept {
  HWY_DYNAMIC_DISPATCH(PrepareQueryTarget)(q, head_dim, query);
}
void PageScores(const KvQuery& query, const KvChunk& chunk, const std::byte* ahead,
                float* scores) noexcept {
  HWY_DYNAMIC_DISPATCH(PageScoresTarget)(query, chunk, ahead, scores);
}
float SoftmaxWeights(float* scores, int64_t begin, int64_t end, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(SoftmaxWeightsTarget)(scores, begin, end, count);
}
void MixPage(const float* weights, int32_t begin, int32_t end, int32_t head_dim,
             const KvChunk& chunk, const std::byte* ahead, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(MixPageTarget)(weights, begin, end, head_dim, chunk, ahead, y);
}

}  // namespace antiphon::kernels::cpu
#endif
