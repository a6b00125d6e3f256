// Signals to test with, and what is measured on them.
#pragma once

#include <cmath>
#include <span>
#include <vector>

namespace antiphon::audio {

inline std::vector<float> Tone(double hz, int rate_hz, size_t count, float amplitude) {
  std::vector<float> tone(count);
  for (size_t i = 0; i < count; ++i) {
    tone[i] = amplitude *
              static_cast<float>(std::sin(2.0 * M_PI * hz * static_cast<double>(i) / rate_hz));
  }
  return tone;
}

inline double Rms(std::span<const float> pcm) {
  double sum = 0.0;
  for (const float sample : pcm) sum += static_cast<double>(sample) * static_cast<double>(sample);
  return std::sqrt(sum / static_cast<double>(pcm.size()));
}

// Amplitude of the sine of this frequency in pcm (correlation with sine and cosine).
inline double ToneAmplitude(std::span<const float> pcm, double hz, int rate_hz) {
  double re = 0.0, im = 0.0;
  for (size_t i = 0; i < pcm.size(); ++i) {
    const double angle = 2.0 * M_PI * hz * static_cast<double>(i) / rate_hz;
    re += static_cast<double>(pcm[i]) * std::cos(angle);
    im += static_cast<double>(pcm[i]) * std::sin(angle);
  }
  return 2.0 * std::hypot(re, im) / static_cast<double>(pcm.size());
}

// Of `got` against `expected`, both from `skip` on, over what both have.
inline double SnrDb(std::span<const float> expected, std::span<const float> got, size_t skip) {
  double signal = 0.0, noise = 1e-30;
  for (size_t i = skip; i < std::min(expected.size(), got.size()); ++i) {
    const double e = static_cast<double>(expected[i]), d = static_cast<double>(got[i]) - e;
    signal += e * e;
    noise += d * d;
  }
  return 10.0 * std::log10(signal / noise);
}

}  // namespace antiphon::audio
