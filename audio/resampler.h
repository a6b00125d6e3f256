// Resampling of mono sound between any two rates from 8 to 192 kHz (soxr, high quality).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "audio/status.h"

namespace antiphon::audio {

// A stream. Belongs to one thread at a time. It holds some milliseconds back (soxr's filter).
class Resampler {
 public:
  // Throws AudioError for a rate outside 8000..192000 Hz.
  Resampler(int from_hz, int to_hz);
  ~Resampler();
  Resampler(Resampler&&) noexcept;
  Resampler& operator=(Resampler&&) noexcept;

  // Appends to *out what `in` completes at the new rate.
  void Process(std::span<const float> in, std::vector<float>* out);
  // Appends what was held back, and begins anew.
  void Flush(std::vector<float>* out);

 private:
  struct State;
  void Run(const float* in, size_t count, std::vector<float>* out);
  std::unique_ptr<State> state_;
};

// A whole recording: round(size * to / from) samples. Errors as the constructor's.
std::vector<float> Resample(std::span<const float> in, int from_hz, int to_hz);

}  // namespace antiphon::audio
