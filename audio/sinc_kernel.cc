#include "audio/sinc_kernel.h"

#include <cmath>
#include <numbers>

namespace antiphon::audio {
namespace {

constexpr double kBeta = 9.0;  // Kaiser window: side lobes near -90 dB

// Modified Bessel function of the first kind, order 0, by its series.
double BesselI0(double x) {
  double sum = 1.0, term = 1.0;
  for (int k = 1; k < 50; ++k) {
    term *= (x / (2.0 * k)) * (x / (2.0 * k));
    sum += term;
  }
  return sum;
}

double Sinc(double x) {
  const double angle = std::numbers::pi * x;
  return std::abs(x) < 1e-12 ? 1.0 : std::sin(angle) / angle;
}

}  // namespace

SincKernel::SincKernel() : taps_(size_t{kPhases + 1} * kTaps) {
  constexpr double kHalf = kTaps / 2.0;
  for (int phase = 0; phase <= kPhases; ++phase) {
    float* row = &taps_[static_cast<size_t>(phase) * kTaps];
    double values[kTaps], sum = 0.0;
    for (int tap = 0; tap < kTaps; ++tap) {
      const double x = tap - (kHalf - 1.0) - static_cast<double>(phase) / kPhases;
      const double edge = 1.0 - (x / kHalf) * (x / kHalf);
      values[tap] = edge <= 0.0 ? 0.0 : Sinc(x) * BesselI0(kBeta * std::sqrt(edge));
      sum += values[tap];
    }
    for (int tap = 0; tap < kTaps; ++tap) row[tap] = static_cast<float>(values[tap] / sum);
  }
}

const SincKernel& SincKernel::Shared() {
  static const SincKernel kernel;
  return kernel;
}

float SincKernel::At(const float* in, double fraction) const noexcept {
  const double place = fraction * kPhases;
  const auto phase = static_cast<int>(place);
  const auto between = static_cast<float>(place - phase);
  const float* low = &taps_[static_cast<size_t>(phase) * kTaps];
  const float* high = low + kTaps;
  float a = 0.0F, b = 0.0F;
  for (int tap = 0; tap < kTaps; ++tap) {
    a += in[tap] * low[tap];
    b += in[tap] * high[tap];
  }
  return a + (b - a) * between;
}

}  // namespace antiphon::audio
