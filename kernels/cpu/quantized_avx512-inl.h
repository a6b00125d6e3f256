// What the 512-bit quantized kernels share: a panel's scales and a panel's end.
#pragma once

#ifdef __x86_64__

#include <immintrin.h>

#include "kernels/cpu/quantized_linear.h"

namespace antiphon::kernels::cpu {

#define ANTIPHON_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

inline constexpr int32_t kPanelChannels = 16;  // lanes of a register

// The scales of a block's group `group` as float32 [kPanelChannels].
ANTIPHON_AVX512 inline __m512 LoadScales(const std::byte* block, int32_t group) {
  const auto* at = reinterpret_cast<const __m256i*>(block + group * 2 * kPanelChannels);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256(at)), 16));
}

// A panel's sums for one row to y, as FinishPanel does it.
ANTIPHON_AVX512 inline void StorePanel(const QuantizedBlock& block, int32_t panel, __m512 sums,
                                       float* y) {
  const bool plain =
      block.bias == nullptr && block.scale == nullptr && block.activation == Activation::kNone;
  const int32_t begin = panel * kPanelChannels;
  if (plain && begin + kPanelChannels <= block.n) {
    if (block.accumulate) sums = _mm512_add_ps(sums, _mm512_loadu_ps(y + begin));
    _mm512_storeu_ps(y + begin, sums);
    return;
  }
  alignas(64) float values[kPanelChannels];
  _mm512_store_ps(values, sums);
  FinishPanel(block, panel, values, y);
}

#undef ANTIPHON_AVX512

}  // namespace antiphon::kernels::cpu

#endif
