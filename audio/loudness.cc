#include "audio/loudness.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace antiphon::audio {
namespace {

// A second-order filter, direct form II transposed.
struct Biquad {
  double b0, b1, b2, a1, a2;
  double s1 = 0.0, s2 = 0.0;
  double Process(double x) {
    const double y = b0 * x + s1;
    s1 = b1 * x - a1 * y + s2;
    s2 = b2 * x - a2 * y;
    return y;
  }
};

// The two stages of K-weighting for any rate. BS.1770 gives their coefficients at 48 kHz; these
// analogue prototypes reproduce them there (the bilinear transform of a shelf at 1681.97 Hz and of
// a high pass at 38.1355 Hz, with the Q and gain of the standard's tables).
Biquad HeadShelf(int rate_hz) {
  const double k = std::tan(std::numbers::pi * 1681.974450955533 / rate_hz);
  const double q = 0.7071752369554196;
  const double high = std::pow(10.0, 3.999843853973347 / 20.0);
  const double band = std::pow(high, 0.4996667741545416);
  const double a0 = 1.0 + k / q + k * k;
  return {(high + band * k / q + k * k) / a0, 2.0 * (k * k - high) / a0,
          (high - band * k / q + k * k) / a0, 2.0 * (k * k - 1.0) / a0, (1.0 - k / q + k * k) / a0};
}

Biquad HighPass(int rate_hz) {
  const double k = std::tan(std::numbers::pi * 38.13547087602444 / rate_hz);
  const double q = 0.5003270373238773;
  const double a0 = 1.0 + k / q + k * k;
  return {1.0, -2.0, 1.0, 2.0 * (k * k - 1.0) / a0, (1.0 - k / q + k * k) / a0};
}

double Lufs(double power) { return -0.691 + 10.0 * std::log10(power); }

// Mean of the blocks louder than `gate`; 0 where there are none.
double MeanAbove(const std::vector<double>& powers, double gate) {
  double sum = 0.0;
  size_t count = 0;
  for (const double power : powers) {
    if (power <= 0.0 || Lufs(power) <= gate) continue;
    sum += power;
    ++count;
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace

double IntegratedLoudness(std::span<const float> samples, int rate_hz) {
  Biquad shelf = HeadShelf(rate_hz), high_pass = HighPass(rate_hz);
  std::vector<double> squares(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const double y = high_pass.Process(shelf.Process(samples[i]));
    squares[i] = y * y;
  }
  const auto block = static_cast<size_t>(rate_hz) * 4 / 10, step = block / 4;
  std::vector<double> powers;
  for (size_t begin = 0; begin + block <= squares.size(); begin += step) {
    double sum = 0.0;
    for (size_t i = begin; i < begin + block; ++i) sum += squares[i];
    powers.push_back(sum / static_cast<double>(block));
  }
  const double absolute = MeanAbove(powers, -70.0);
  if (absolute <= 0.0) return -std::numeric_limits<double>::infinity();
  return Lufs(MeanAbove(powers, Lufs(absolute) - 10.0));
}

void NormalizeLoudness(double lufs, int rate_hz, std::vector<float>* samples) {
  const double loudness = IntegratedLoudness(*samples, rate_hz);
  if (!std::isfinite(loudness)) return;
  const auto gain = static_cast<float>(std::pow(10.0, (lufs - loudness) / 20.0));
  for (float& sample : *samples) sample *= gain;
}

}  // namespace antiphon::audio
