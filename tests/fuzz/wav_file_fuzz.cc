// WAV bytes: a sound whose parts agree, or an AudioError.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "audio/wav_file.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace antiphon::audio;
  try {
    const Sound sound = ParseWav({data, size}, "fuzz");
    Require(sound.channels > 0 && sound.rate_hz > 0);
    Require(sound.samples.size() == sound.frames() * static_cast<size_t>(sound.channels));
    Require(sound.samples.size() <= size);
    for (const float sample : sound.samples) Require(std::isfinite(sample));
    if (sound.frames() > 1000) return 0;  // resampling is not what is tested
    Require(ToMono(sound, sound.rate_hz).size() == sound.frames());
  } catch (const AudioError&) {
  }
  return 0;
}
