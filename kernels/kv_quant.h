// Quantizers of keys and values, scalar: executors differ in layout, never in the numbers.
//
// Scales are stored as bf16 and values are quantized with the stored (rounded) scale, so that its
// rounding costs nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/bf16.h"

namespace antiphon::kernels {

// To the nearest integer, ties to even, for magnitudes below 2^22: what 1.5 * 2^23 more has no bits
// for. Two additions, where nearbyint is a call.
inline float RoundToInteger(float x) {
  constexpr float kRounder = 12582912.0F;
  return (x + kRounder) - kRounder;
}

// x within [least, largest]; least where x is no number.
inline float Clamped(float x, float least, float largest) {
  return std::min(largest, std::max(least, x));
}

// 1 / scale, or 0 where that is no finite number: a group of zeros, of nothing but subnormal
// numbers, or with an infinity in it becomes zeros.
inline float InverseOf(float scale) {
  const float inverse = 1.0F / scale;
  return std::isfinite(inverse) && std::isfinite(scale) ? inverse : 0.0F;
}

// x ~ scale * q, q in -127..127.
struct Int8Scale {
  uint16_t bits = 0;
  float value = 0.0F, inverse = 0.0F;

  static Int8Scale Of(const float* x, int32_t n) {
    float largest = 0.0F;
    for (int32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
    Int8Scale scale;
    scale.inverse = InverseOf(FromBf16(ToBf16(largest / 127.0F)));
    if (scale.inverse == 0.0F) return scale;
    scale.bits = ToBf16(largest / 127.0F);
    scale.value = FromBf16(scale.bits);
    return scale;
  }
  int8_t Quantize(float x) const {
    return static_cast<int8_t>(Clamped(RoundToInteger(x * inverse), -127.0F, 127.0F));
  }
};

// x ~ minimum + scale * q, q in 0..15 (keys: over the positions of a page).
struct Int4Channel {
  uint16_t scale_bits = 0, minimum_bits = 0;
  float scale = 0.0F, minimum = 0.0F, inverse = 0.0F;

  static Int4Channel Of(float least, float largest) {
    Int4Channel channel;
    if (!std::isfinite(least) || !std::isfinite(largest)) return channel;
    channel.minimum_bits = ToBf16(least);
    channel.minimum = FromBf16(channel.minimum_bits);
    channel.scale_bits = ToBf16(std::max(0.0F, largest - channel.minimum) / 15.0F);
    channel.scale = FromBf16(channel.scale_bits);
    channel.inverse = InverseOf(channel.scale);
    return channel;
  }
  uint8_t Quantize(float x) const {
    return static_cast<uint8_t>(Clamped(RoundToInteger((x - minimum) * inverse), 0.0F, 15.0F));
  }
  float Value(uint8_t q) const { return minimum + scale * static_cast<float>(q); }
};

// x ~ scale * (q - 8), q in 0..15 (values: over the channels of a position). The value of largest
// magnitude becomes -8, so that all sixteen levels are used.
struct Int4Scale {
  uint16_t bits = 0;
  float value = 0.0F, inverse = 0.0F;

  static Int4Scale Of(const float* x, int32_t n) {
    float extreme = 0.0F;
    for (int32_t i = 0; i < n; ++i) {
      if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
    }
    Int4Scale scale;
    scale.inverse = InverseOf(FromBf16(ToBf16(extreme / -8.0F)));
    if (scale.inverse == 0.0F) return scale;
    scale.bits = ToBf16(extreme / -8.0F);
    scale.value = FromBf16(scale.bits);
    return scale;
  }
  uint8_t Quantize(float x) const {
    return static_cast<uint8_t>(Clamped(RoundToInteger(x * inverse) + 8.0F, 0.0F, 15.0F));
  }
  float Value(uint8_t q) const { return value * static_cast<float>(q - 8); }
};

}  // namespace antiphon::kernels
