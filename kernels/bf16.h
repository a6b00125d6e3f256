// bfloat16 as 16 bits: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace antiphon::kernels {

// Rounds to nearest even; NaN stays NaN.
inline uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float FromBf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

}  // namespace antiphon::kernels
