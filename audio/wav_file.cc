#include "audio/wav_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "audio/resampler.h"

namespace antiphon::audio {
namespace {

// Format tags of mmreg.h.
constexpr uint32_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

struct Format {
  bool is_float = false;
  int bits = 0;  // 8, 16, 24, 32, 64: of the container
  size_t channels = 0;
  uint32_t rate_hz = 0;
  size_t frame_bytes() const { return channels * static_cast<size_t>(bits) / 8; }
};

uint64_t ReadLe(const uint8_t* bytes, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

bool Is(std::span<const uint8_t> bytes, const char* four) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), four, 4) == 0;
}

[[noreturn]] void Fail(const std::string& name, const std::string& what) {
  throw AudioError(name + ": " + what);
}

// WAVEFORMATEX: tag 2, channels 2, rate 4, bytes per second 4, frame bytes 2, bits 2; the
// extensible form adds size 2, valid bits 2, channel mask 4 and a GUID that begins with the real
// tag.
Format ParseFormat(std::span<const uint8_t> chunk, const std::string& name) {
  if (chunk.size() < 16) {
    Fail(name, "fmt chunk: expected at least 16 bytes, found " + std::to_string(chunk.size()));
  }
  const uint8_t* bytes = chunk.data();
  auto tag = static_cast<uint32_t>(ReadLe(bytes, 2));
  if (tag == kExtensible) {
    if (chunk.size() < 26) {
      Fail(name, "extensible fmt chunk: expected 40 bytes, found " + std::to_string(chunk.size()));
    }
    tag = static_cast<uint32_t>(ReadLe(bytes + 24, 2));
  }
  Format format;
  format.is_float = tag == kFloat;
  format.channels = static_cast<size_t>(ReadLe(bytes + 2, 2));
  format.rate_hz = static_cast<uint32_t>(ReadLe(bytes + 4, 4));
  format.bits = static_cast<int>(ReadLe(bytes + 14, 2));
  const auto frame_bytes = static_cast<size_t>(ReadLe(bytes + 12, 2));
  if (tag != kPcm && tag != kFloat) {
    Fail(name, "coding: expected PCM (1) or float (3), found format tag " + std::to_string(tag));
  }
  if (format.channels == 0) Fail(name, "channels: expected at least 1, found 0");
  if (format.rate_hz == 0 || format.rate_hz > 10'000'000) {
    Fail(name, "sample rate: expected 1 to 10000000 Hz, found " + std::to_string(format.rate_hz));
  }
  // Odd widths such as 12 or 20 bits lie in the upper bits of the next larger container.
  if (!format.is_float && format.bits > 0 && format.bits <= 32) {
    format.bits = (format.bits + 7) / 8 * 8;
    const size_t container = frame_bytes / format.channels * 8;
    if (container > static_cast<size_t>(format.bits) && container <= 32) {
      format.bits = static_cast<int>(container);
    }
  }
  const bool known = format.is_float ? format.bits == 32 || format.bits == 64
                                     : format.bits == 8 || format.bits == 16 || format.bits == 24 ||
                                           format.bits == 32;
  if (!known) {
    Fail(name, std::string("bits per sample: expected ") +
                   (format.is_float ? "32 or 64" : "8, 16, 24 or 32") + ", found " +
                   std::to_string(format.bits));
  }
  return format;
}

float ReadSample(const uint8_t* bytes, const Format& format) {
  if (format.is_float) {
    const float value = format.bits == 32
                            ? std::bit_cast<float>(static_cast<uint32_t>(ReadLe(bytes, 4)))
                            : static_cast<float>(std::bit_cast<double>(ReadLe(bytes, 8)));
    return std::isfinite(value) ? value : 0.0F;
  }
  if (format.bits == 8)
    return (static_cast<float>(bytes[0]) - 128.0F) / 128.0F;  // the unsigned one
  const auto raw = static_cast<uint32_t>(ReadLe(bytes, format.bits / 8));
  const auto value = static_cast<int32_t>(raw << (32 - format.bits));
  return static_cast<float>(static_cast<double>(value) / 2147483648.0);
}

Sound ReadSamples(std::span<const uint8_t> data, const Format& format) {
  Sound sound;
  sound.rate_hz = static_cast<int>(format.rate_hz);
  sound.channels = static_cast<int>(format.channels);
  const size_t count = data.size() / format.frame_bytes() * format.channels;
  const size_t step = static_cast<size_t>(format.bits) / 8;
  sound.samples.resize(count);
  for (size_t i = 0; i < count; ++i) sound.samples[i] = ReadSample(&data[i * step], format);
  return sound;
}

}  // namespace

Sound ParseWav(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < 12 || !(Is(bytes, "RIFF") || Is(bytes, "RF64")) ||
      !Is(bytes.subspan(8), "WAVE")) {
    Fail(name, "expected a WAV file (RIFF, WAVE), found " + std::to_string(bytes.size()) +
                   " bytes of something else");
  }
  std::optional<Format> format;
  size_t at = 12;
  while (bytes.size() - at >= 8) {
    const std::span<const uint8_t> id = bytes.subspan(at, 4);
    const auto size = static_cast<size_t>(ReadLe(&bytes[at + 4], 4));
    at += 8;
    const size_t rest = bytes.size() - at;
    if (Is(id, "data")) {
      if (!format) Fail(name, "expected a fmt chunk before the data chunk, found none");
      const bool open_end = size == 0 || size >= rest;
      return ReadSamples(bytes.subspan(at, open_end ? rest : size), *format);
    }
    if (Is(id, "fmt ")) format = ParseFormat(bytes.subspan(at, std::min(size, rest)), name);
    // Chunks begin at even places; some writers forget the pad byte, but not many.
    const size_t padded = size + (size & 1U);
    if (padded >= rest) break;
    at += padded;
  }
  Fail(name, std::string("expected a data chunk, found none") + (format ? "" : ", and no fmt"));
}

Sound ReadWav(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) Fail(path, std::string("cannot be read: ") + std::strerror(errno));
  return ParseWav(bytes, path);
}

std::vector<float> ToMono(const Sound& sound, int rate_hz) {
  const auto channels = static_cast<size_t>(sound.channels);
  std::vector<float> mono(sound.frames());
  for (size_t i = 0; i < mono.size(); ++i) {
    double sum = 0.0;
    for (size_t c = 0; c < channels; ++c)
      sum += static_cast<double>(sound.samples[i * channels + c]);
    mono[i] = static_cast<float>(sum / static_cast<double>(channels));
  }
  return Resample(mono, sound.rate_hz, rate_hz);
}

}  // namespace antiphon::audio
