// Integrated loudness (ITU-R BS.1770-4), for bringing voice samples to the level that models were
// trained on.
#pragma once

#include <span>
#include <vector>

namespace antiphon::audio {

// LUFS of mono sound: K-weighting, blocks of 400 ms overlapping by three quarters, gates at -70
// LUFS and 10 LU below the mean. -infinity where every block is gated, or the sound is shorter than
// a block.
double IntegratedLoudness(std::span<const float> samples, int rate_hz);

// Scales the sound to `lufs`; silence stays as it is.
void NormalizeLoudness(double lufs, int rate_hz, std::vector<float>* samples);

}  // namespace antiphon::audio
