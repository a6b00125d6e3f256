#include "kernels/cpu/vector_kernels.h"

#include <cmath>

#include "kernels/bf16.h"
#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_kernels.cc"
#include <hwy/foreach_target.h>
// clang-format off: highway.h must follow foreach_target.h
#include <hwy/highway.h>

#include "kernels/cpu/activations-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace antiphon::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Calls body(i, load, store) for whole vectors, then once for the rest through a zero-filled
// buffer.
template <class Body>
HWY_INLINE void ForVectors(int64_t n, Body body) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body(
        i, [&](const float* p) { return hn::LoadU(d, p + i); },
        [&](V v, float* p) { hn::StoreU(v, d, p + i); });
  }
  if (i == n) return;
  const int64_t rest = n - i;
  HWY_ALIGN float edge[HWY_MAX_BYTES / sizeof(float)];
  body(
      i,
      [&](const float* p) {
        for (int64_t j = 0; j < lanes; ++j) edge[j] = j < rest ? p[i + j] : 0.0F;
        return hn::Load(d, edge);
      },
      [&](V v, float* p) {
        hn::Store(v, d, edge);
        for (int64_t j = 0; j < rest; ++j) p[i + j] = edge[j];
      });
}

HWY_INLINE float Total(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

void NormalizeTarget(Norm kind, float eps, const float* weight, const float* bias, const float* x,
                     float* y, int32_t n) {
  const D d;
  V mean = hn::Zero(d);
  if (kind == Norm::kLayer) {
    V sum = hn::Zero(d);
    ForVectors(n, [&](int64_t, auto load, auto) { sum = hn::Add(sum, load(x)); });
    mean = hn::Set(d, Total(sum) / static_cast<float>(n));
  }
  V squares = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  ForVectors(n, [&](int64_t i, auto load, auto) {
    V centred = hn::Sub(load(x), mean);
    // Lanes past the end hold 0 - mean and must not count.
    if (i + lanes > n) {
      centred = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), centred);
    }
    squares = hn::MulAdd(centred, centred, squares);
  });
  const V inverse = hn::Set(d, 1.0F / std::sqrt(Total(squares) / static_cast<float>(n) + eps));
  ForVectors(n, [&](int64_t, auto load, auto store) {
    // alpha * rsqrt first, then x, as the reference implementation orders the product.
    V value = hn::Mul(hn::Mul(load(weight), inverse), hn::Sub(load(x), mean));
    if (bias != nullptr) value = hn::Add(value, load(bias));
    store(value, y);
  });
}

void ActivateTarget(Activation activation, const float* x, float* y, int64_t n) {
  ForVectors(n,
             [&](int64_t, auto load, auto store) { store(Activate(D(), activation, load(x)), y); });
}

void GateTarget(Activation activation, const float* x, float* y, int32_t n) {
  ForVectors(n, [&](int64_t, auto load, auto store) {
    const V gate = Activate(D(), activation, load(x));
    store(hn::Mul(gate, load(x + n)), y);
  });
}

void AddToTarget(const float* x, float* y, int32_t n) {
  ForVectors(n, [&](int64_t, auto load, auto store) {
    const V sum = load(x);
    store(hn::Add(load(y), sum), y);
  });
}

void AddBf16ToTarget(const uint16_t* x, float* y, int32_t n) {
  const D d;
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  const auto* from = reinterpret_cast<const hwy::bfloat16_t*>(x);
  const auto lanes = static_cast<int32_t>(hn::Lanes(d));
  int32_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::PromoteTo(d, hn::LoadU(d16, from + i))), d, y + i);
  }
  for (; i < n; ++i) y[i] += FromBf16(x[i]);
}

void SubtractFromTarget(const float* x, float* y, int32_t n) {
  ForVectors(n, [&](int64_t, auto load, auto store) {
    const V minus = load(x);
    store(hn::Sub(load(y), minus), y);
  });
}

HWY_INLINE float Dot(const float* a, const float* b, int32_t n) {
  V sum = hn::Zero(D());
  ForVectors(n, [&](int64_t, auto load, auto) {
    const V left = load(a);
    sum = hn::MulAdd(left, load(b), sum);
  });
  return Total(sum);
}

void AttendHeadTarget(const float* q, const float* keys, const float* values, int64_t begin,
                      int64_t end, int32_t capacity, int32_t head_dim, float* scores, float* y) {
  const D d;
  const int64_t count = end - begin;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  float peak = -INFINITY;
  int64_t at = begin % capacity;
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = Dot(q, keys + at * head_dim, head_dim) * scale;
    peak = scores[i] > peak ? scores[i] : peak;
    if (++at == capacity) at = 0;
  }
  const V high = hn::Set(d, peak);
  V total = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  ForVectors(count, [&](int64_t i, auto load, auto store) {
    V weight = ExpNegative(d, hn::Sub(load(scores), high));
    if (i + lanes > count) {
      weight = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - i)), weight);
    }
    total = hn::Add(total, weight);
    store(weight, scores);
  });
  const float inverse = 1.0F / Total(total);
  for (int32_t c = 0; c < head_dim; ++c) y[c] = 0.0F;
  at = begin % capacity;
  for (int64_t i = 0; i < count; ++i) {
    const V weight = hn::Set(d, scores[i] * inverse);
    const float* value = values + at * head_dim;
    ForVectors(head_dim, [&](int64_t, auto load, auto store) {
      const V v = load(value);
      store(hn::MulAdd(weight, v, load(y)), y);
    });
    if (++at == capacity) at = 0;
  }
}

int32_t QuantizeGroupTarget(const float* x, int8_t* levels, float* scale) {
  constexpr size_t kGroup = 32;
  const hn::CappedTag<float, kGroup> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < kGroup; i += lanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + i)));
  }
  const float peak = hn::GetLane(hn::MaxOfLanes(d, largest));
  // Also where x is no number: its levels are zero, and what it spoils is its own sum.
  const float factor = peak > 0.0F ? 127.0F / peak : 0.0F;
  *scale = peak / 127.0F;
  auto sum = hn::Zero(di);
  for (size_t i = 0; i < kGroup; i += lanes) {
    const auto level = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)));
    hn::StoreU(hn::DemoteTo(d8, level), d8, levels + i);
    sum = hn::Add(sum, level);
  }
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

int32_t ArgMaxTarget(const float* x, int32_t n) {
  const D d;
  V best = hn::Set(d, -INFINITY);
  const auto lanes = static_cast<int32_t>(hn::Lanes(d));
  int32_t i = 0;
  for (; i + lanes <= n; i += lanes) best = hn::Max(best, hn::LoadU(d, x + i));
  float peak = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < n; ++i) peak = x[i] > peak ? x[i] : peak;
  for (i = 0; i < n; ++i) {
    if (x[i] >= peak) return i;
  }
  return 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon::kernels::cpu {

HWY_EXPORT(NormalizeTarget);
HWY_EXPORT(ActivateTarget);
HWY_EXPORT(GateTarget);
HWY_EXPORT(AddToTarget);
HWY_EXPORT(AddBf16ToTarget);
HWY_EXPORT(SubtractFromTarget);
HWY_EXPORT(AttendHeadTarget);
HWY_EXPORT(QuantizeGroupTarget);
HWY_EXPORT(ArgMaxTarget);

void Normalize(Norm kind, float eps, const float* weight, const float* bias, const float* x,
               float* y, int32_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(NormalizeTarget)(kind, eps, weight, bias, x, y, n);
}
void ActivateVector(Activation activation, const float* x, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(ActivateTarget)(activation, x, y, n);
}
void GateVector(Activation activation, const float* x, float* y, int32_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(GateTarget)(activation, x, y, n);
}
void AddTo(const float* x, float* y, int32_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(AddToTarget)(x, y, n);
}
void AddBf16To(const uint16_t* x, float* y, int32_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(AddBf16ToTarget)(x, y, n);
}
void SubtractFrom(const float* x, float* y, int32_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(SubtractFromTarget)(x, y, n);
}
void AttendHead(const float* q, const float* keys, const float* values, int64_t begin, int64_t end,
                int32_t capacity, int32_t head_dim, float* scores, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(AttendHeadTarget)
  (q, keys, values, begin, end, capacity, head_dim, scores, y);
}
int32_t QuantizeGroup(const float* x, int8_t* levels, float* scale) noexcept {
  return HWY_DYNAMIC_DISPATCH(QuantizeGroupTarget)(x, levels, scale);
}
int32_t ArgMax(const float* x, int32_t n) noexcept {
  return HWY_DYNAMIC_DISPATCH(ArgMaxTarget)(x, n);
}

}  // namespace antiphon::kernels::cpu
#endif
