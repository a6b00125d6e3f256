// WAV files as they are found in the world: any channel count and rate, 8 to 32-bit integers, 32
// and 64-bit floats, extra chunks, and the wrong sizes that streaming writers leave behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "audio/status.h"
#include "audio/wav_writer.h"

namespace antiphon::audio {

struct Sound {
  int rate_hz = 0;
  int channels = 0;
  std::vector<float> samples;  // [frames, channels], full scale is -1..1
  size_t frames() const {
    return channels == 0 ? 0 : samples.size() / static_cast<size_t>(channels);
  }
};

// Reads a whole file. A data size of 0 or 0xFFFFFFFF, or one beyond the file's end, means "to the
// end"; an incomplete last frame is left out. Throws AudioError: cannot be read, not a WAV file, an
// unsupported coding, no fmt or no data chunk.
Sound ReadWav(const std::string& path);
// The same from memory; `name` stands for the file in errors.
Sound ParseWav(std::span<const uint8_t> bytes, const std::string& name);

// The average of all channels at rate_hz. Throws AudioError where either rate is outside the
// resampler's 8000..192000 Hz.
std::vector<float> ToMono(const Sound& sound, int rate_hz);

}  // namespace antiphon::audio
