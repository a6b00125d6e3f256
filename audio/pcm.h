// Conversions between 16-bit samples and floats in -1..1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace antiphon::audio {

// Nearest 16-bit sample. Values beyond full scale saturate, NaN is silence.
inline int16_t ToPcm16(float sample) {
  if (std::isnan(sample)) return 0;
  return static_cast<int16_t>(std::lrintf(std::clamp(sample * 32768.0F, -32768.0F, 32767.0F)));
}

inline float FromPcm16(int16_t sample) { return static_cast<float>(sample) / 32768.0F; }

}  // namespace antiphon::audio
