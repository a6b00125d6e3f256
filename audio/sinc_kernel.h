// Interpolation between samples: a Kaiser-windowed sinc in 128 phases, linear between phases. Made
// for ratios very near 1; images lie below -80 dB for sound up to 9 kHz at 24 kHz.
#pragma once

#include <vector>

namespace antiphon::audio {

// Immutable; any thread may read it.
class SincKernel {
 public:
  static constexpr int kTaps = 32;

  // The one that all share, made by the first call.
  static const SincKernel& Shared();

  // The value `fraction` (0 <= fraction < 1) of a sample after in[kTaps / 2 - 1]; in [kTaps].
  float At(const float* in, double fraction) const noexcept;

 private:
  static constexpr int kPhases = 128;
  SincKernel();
  std::vector<float> taps_;  // [kPhases + 1, kTaps], each row sums to 1
};

}  // namespace antiphon::audio
