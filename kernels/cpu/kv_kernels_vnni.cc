#include "kernels/cpu/kv_kernels_vnni.h"

#include "kernels/cpu/kv_layout.h"

#ifdef __x86_64__
#include <immintrin.h>

// gcc 12's own headers leave vectors undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace antiphon::kernels::cpu {
namespace {

#define ANTIPHON_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

// Sixteen bf16 as floats.
ANTIPHON_VNNI inline __m512 LoadBf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// x[16 * n] ~ bytes * the returned unit.
ANTIPHON_VNNI inline float ToBytes(const __m512* x, int32_t n, int8_t* bytes) {
  __m512 largest = _mm512_abs_ps(x[0]);
  for (int32_t i = 1; i < n; ++i) largest = _mm512_max_ps(largest, _mm512_abs_ps(x[i]));
  const float peak = _mm512_reduce_max_ps(largest);
  const __m512 factor = _mm512_set1_ps(peak > 0.0F ? 127.0F / peak : 0.0F);
  for (int32_t i = 0; i < n; ++i) {
    const __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x[i], factor));
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes + 16 * i), _mm512_cvtepi32_epi8(v));
  }
  return peak / 127.0F;
}

ANTIPHON_VNNI inline __m512i Broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Sums by half of a byte, so that neither waits for the other.
struct HalfSums {
  __m512i low, high;
};
ANTIPHON_VNNI inline HalfSums Zero() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
// 64 bytes of nibbles times eight bytes.
ANTIPHON_VNNI inline void AddNibbles(const uint8_t* p, __m512i first, __m512i second,
                                     HalfSums* sums) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i both = _mm512_loadu_si512(p);
  const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
  sums->low = _mm512_dpbusd_epi32(sums->low, _mm512_and_si512(both, mask), first);
  sums->high = _mm512_dpbusd_epi32(sums->high, high, second);
}
ANTIPHON_VNNI inline __m512 Total(const HalfSums& sums) {
  return _mm512_cvtepi32_ps(_mm512_add_epi32(sums.low, sums.high));
}

inline void Fetch(const std::byte* p, int32_t bytes) {
  for (int32_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

constexpr int32_t kGroup = 8;  // channels (positions) of a lane's four bytes

}  // namespace

bool HasVnni() noexcept {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return has;
}

ANTIPHON_VNNI void PrepareInt4Scores(const KvQuery& query, const KvChunk& chunk,
                                     Int4Operand* operand) noexcept {
  const KvLayout layout(query.head_dim);
  const int32_t width = layout.key_width;
  const auto* keys = reinterpret_cast<const uint8_t*>(chunk.keys);
  const auto* scales = reinterpret_cast<const uint16_t*>(keys + layout.int4_key_scales());
  __m512 scaled[(kMaxHeadDim + 15) / 16];
  __m512 constant = _mm512_setzero_ps();
  const int32_t vectors = (width + 15) / 16;
  for (int32_t i = 0; i < vectors; ++i) {
    // Past the width lies another array, whose bits may be no number.
    const int32_t left = width - 16 * i;
    const auto inside = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1 << left) - 1);
    const __m512 q = _mm512_load_ps(query.q + 16 * i);
    const __m512 minimum = _mm512_maskz_mov_ps(inside, LoadBf16(scales + width + 16 * i));
    scaled[i] = _mm512_mul_ps(q, _mm512_maskz_mov_ps(inside, LoadBf16(scales + 16 * i)));
    constant = _mm512_fmadd_ps(q, minimum, constant);
  }
  operand->shift = _mm512_reduce_add_ps(constant);
  operand->unit = ToBytes(scaled, vectors, operand->bytes);
}

ANTIPHON_VNNI void RunInt4Scores(const Int4Operand& operand, int32_t head_dim, const KvChunk& chunk,
                                 const std::byte* ahead, float* scores) noexcept {
  const KvLayout layout(head_dim);
  const int32_t groups = layout.key_width / kGroup;
  const auto* keys = reinterpret_cast<const uint8_t*>(chunk.keys);
  HalfSums sums[kKvPanels];
  for (HalfSums& sum : sums) sum = Zero();
  Fetch(ahead + layout.int4_key_scales(), 4 * layout.key_width);
  for (int32_t g = 0; g < groups; ++g) {
    Fetch(ahead + g * 4 * kKvPage, 4 * kKvPage);
    const __m512i first = Broadcast4(operand.bytes + g * kGroup);
    const __m512i second = Broadcast4(operand.bytes + g * kGroup + 4);
    for (int32_t p = 0; p < kKvPanels; ++p) {
      AddNibbles(keys + (p * groups + g) * 4 * kKvPanel, first, second, &sums[p]);
    }
  }
  const __m512 unit = _mm512_set1_ps(operand.unit), shift = _mm512_set1_ps(operand.shift);
  for (int32_t p = 0; p < kKvPanels; ++p) {
    _mm512_storeu_ps(scores + p * kKvPanel, _mm512_fmadd_ps(Total(sums[p]), unit, shift));
  }
}

namespace {

// Sixteen times kBlock channels of all 64 positions.
template <int kBlock>
ANTIPHON_VNNI void MixBlock(const Int4Operand& operand, int32_t width, const uint8_t* values,
                            const std::byte* ahead, float* y) {
  HalfSums sums[kBlock];
  for (HalfSums& sum : sums) sum = Zero();
  for (int32_t g = 0; g < kKvPage / kGroup; ++g) {
    Fetch(ahead + g * 4 * width, kBlock * 4 * kKvPanel);
    const __m512i first = Broadcast4(operand.bytes + g * kGroup);
    const __m512i second = Broadcast4(operand.bytes + g * kGroup + 4);
    for (int32_t b = 0; b < kBlock; ++b) {
      AddNibbles(values + g * 4 * width + b * 4 * kKvPanel, first, second, &sums[b]);
    }
  }
  const __m512 unit = _mm512_set1_ps(operand.unit), shift = _mm512_set1_ps(operand.shift);
  for (int32_t b = 0; b < kBlock; ++b) {
    float* out = y + b * kKvPanel;
    const __m512 centred = _mm512_sub_ps(Total(sums[b]), shift);
    _mm512_storeu_ps(out, _mm512_fmadd_ps(centred, unit, _mm512_loadu_ps(out)));
  }
}

}  // namespace

ANTIPHON_VNNI void PrepareInt4Mix(const float* weights, int32_t head_dim, const KvChunk& chunk,
                                  Int4Operand* operand) noexcept {
  const KvLayout layout(head_dim);
  const auto* scales = reinterpret_cast<const uint16_t*>(
      reinterpret_cast<const uint8_t*>(chunk.values) + layout.int4_value_scales());
  __m512 scaled[kKvPage / 16];
  for (int32_t i = 0; i < kKvPage / 16; ++i) {
    scaled[i] = _mm512_mul_ps(_mm512_loadu_ps(weights + 16 * i), LoadBf16(scales + 16 * i));
  }
  operand->unit = ToBytes(scaled, kKvPage / 16, operand->bytes);
  // Eight times the sum of all weights: what the levels' offset adds to every channel.
  const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(8),
                                           _mm512_load_si512(operand->bytes));
  operand->shift = static_cast<float>(_mm512_reduce_add_epi32(sums));
}

ANTIPHON_VNNI void RunInt4Mix(const Int4Operand& operand, int32_t head_dim, const KvChunk& chunk,
                              const std::byte* ahead, float* y) noexcept {
  const KvLayout layout(head_dim);
  const int32_t width = layout.value_width;
  const auto* values = reinterpret_cast<const uint8_t*>(chunk.values);
  Fetch(ahead + layout.int4_value_scales(), 2 * kKvPage);
  int32_t c = 0;
  for (; c + 64 <= width; c += 64) {
    MixBlock<4>(operand, width, values + 4 * c, ahead + 4 * c, y + c);
  }
  for (; c < width; c += 16) {
    MixBlock<1>(operand, width, values + 4 * c, ahead + 4 * c, y + c);
  }
}

#undef ANTIPHON_VNNI

}  // namespace antiphon::kernels::cpu

#else

namespace antiphon::kernels::cpu {

bool HasVnni() noexcept { return false; }
void PrepareInt4Scores(const KvQuery&, const KvChunk&, Int4Operand*) noexcept {}
void RunInt4Scores(const Int4Operand&, int32_t, const KvChunk&, const std::byte*, float*) noexcept {
}
void PrepareInt4Mix(const float*, int32_t, const KvChunk&, Int4Operand*) noexcept {}
void RunInt4Mix(const Int4Operand&, int32_t, const KvChunk&, const std::byte*, float*) noexcept {}

}  // namespace antiphon::kernels::cpu

#endif
