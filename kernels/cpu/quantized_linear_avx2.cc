// AVX2: pairs of byte products in 16 bits, then pairs of those in 32. int4 levels are at most 15,
// so that a pair stays below 3,811; int8 levels would overflow the 16 bits, so their sign moves to
// the input (|w| times x with w's sign: at most 32,258).
#ifdef __x86_64__

#include <immintrin.h>

#include "kernels/cpu/quantized_linear_x86.h"

#define ANTIPHON_AVX2 __attribute__((target("avx2,fma")))

namespace antiphon::kernels::cpu {
namespace {

constexpr int64_t kAhead = 4096;
constexpr int32_t kChannels = 16;
constexpr int32_t kRowsOfTile = 4;

ANTIPHON_AVX2 inline __m256i Broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}

ANTIPHON_AVX2 inline __m256i Widen(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Half a panel (eight channels) of one group for one row; `half`: 0 or 1. Without the start.
template <QuantFormat kFormat>
ANTIPHON_AVX2 inline __m256i Dot(const uint8_t* levels, int32_t half, const int8_t* x) {
  __m256i dot = _mm256_setzero_si256();
  if constexpr (kFormat == QuantFormat::kInt4) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (int32_t i = 0; i < kQuantGroup / 8; ++i) {
      const auto* at = reinterpret_cast<const __m256i*>(levels + 64 * i + 32 * half);
      const __m256i both = _mm256_load_si256(at);
      const __m256i low = _mm256_and_si256(both, mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
      const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low, Broadcast4(x + 8 * i)),
                                             _mm256_maddubs_epi16(high, Broadcast4(x + 8 * i + 4)));
      dot = _mm256_add_epi32(dot, Widen(pairs));
    }
  } else {
    const __m256i offset = _mm256_set1_epi8(-128);
    for (int32_t i = 0; i < kQuantGroup / 4; ++i) {
      const auto* at = reinterpret_cast<const __m256i*>(levels + 64 * i + 32 * half);
      const __m256i w = _mm256_xor_si256(_mm256_load_si256(at), offset);
      const __m256i signed_x = _mm256_sign_epi8(Broadcast4(x + 4 * i), w);
      dot = _mm256_add_epi32(dot, Widen(_mm256_maddubs_epi16(_mm256_abs_epi8(w), signed_x)));
    }
  }
  return dot;
}

template <QuantFormat kFormat, int kRows>
ANTIPHON_AVX2 void Panel(const QuantizedBlock& block, int32_t panel, int32_t first_row) {
  constexpr int64_t kBytes = QuantBlockBytes(kFormat);
  constexpr int64_t kGroupBytes = kChannels * kQuantGroup / (kFormat == QuantFormat::kInt4 ? 2 : 1);
  const std::byte* at = block.panels + panel * block.blocks * kBytes;
  __m256 sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_ps();
  for (int32_t b = 0; b < block.blocks; ++b, at += kBytes) {
    for (int64_t i = 0; i < kBytes; i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at) + kAhead + i, _MM_HINT_T0);
    }
    for (int32_t g = 0; g < kGroupsPerBlock; ++g) {
      const auto* p = reinterpret_cast<const uint8_t*>(at);
      const uint8_t* levels = p + 2 * kChannels * kGroupsPerBlock + g * kGroupBytes;
      const int64_t index = int64_t{b} * kGroupsPerBlock + g;
      for (int32_t half = 0; half < 2; ++half) {
        const auto* scales_at = reinterpret_cast<const __m128i*>(p + g * 2 * kChannels + 16 * half);
        const __m256 scales = _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_load_si128(scales_at)), 16));
        for (int r = 0; r < kRows; ++r) {
          const int64_t in = index * block.x.rows + first_row + r;
          const int8_t* x = block.x.levels + in * kQuantGroup;
          __m256i dot = Dot<kFormat>(levels, half, x);
          // int8 levels lost their offset above.
          if constexpr (kFormat == QuantFormat::kInt4) {
            dot = _mm256_add_epi32(dot, _mm256_set1_epi32(block.x.starts[in]));
          }
          const __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(block.x.scales[in]));
          sums[r][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, sums[r][half]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    alignas(32) float values[kChannels];
    _mm256_store_ps(values, sums[r][0]);
    _mm256_store_ps(values + 8, sums[r][1]);
    FinishPanel(block, panel, values, block.y[first_row + r]);
  }
}

template <QuantFormat kFormat>
void Panels(const QuantizedBlock& block) {
  for (int32_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
    int32_t row = 0;
    for (; row + kRowsOfTile <= block.x.rows; row += kRowsOfTile) {
      Panel<kFormat, kRowsOfTile>(block, panel, row);
    }
    for (; row < block.x.rows; ++row) Panel<kFormat, 1>(block, panel, row);
  }
}

}  // namespace

bool HasAvx2Kernel() noexcept {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

void RunAvx2(const QuantizedBlock& block) noexcept {
  if (block.format == QuantFormat::kInt4) {
    Panels<QuantFormat::kInt4>(block);
  } else {
    Panels<QuantFormat::kInt8>(block);
  }
}

}  // namespace antiphon::kernels::cpu

#undef ANTIPHON_AVX2
#endif
