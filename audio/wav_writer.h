// Writes WAV files as the sound comes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "audio/status.h"

namespace antiphon::audio {

enum class WavCoding : uint8_t { kPcm16, kFloat32 };

// Belongs to one thread. Until Close the header says 0xFFFFFFFF, "to the end", so that a file that
// was cut off can be read all the same; a recording beyond 4 GiB keeps that.
class WavWriter {
 public:
  // Throws AudioError where the file cannot be created, or for a rate or channel count (1..64) that
  // makes no sense.
  WavWriter(const std::string& path, int rate_hz, int channels,
            WavCoding coding = WavCoding::kPcm16);
  ~WavWriter();  // closes; errors are lost
  WavWriter(const WavWriter&) = delete;
  WavWriter& operator=(const WavWriter&) = delete;

  // samples: [frames, channels]. 16-bit samples saturate. Throws AudioError when the disk is full.
  void Write(std::span<const float> samples);
  // Puts the sizes right. Throws AudioError where the disk did not take everything.
  void Close();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void WriteHeader(uint32_t riff_bytes, uint32_t data_bytes);
  [[noreturn]] void Fail() const;

  const std::string path_;
  const int rate_hz_, channels_;
  const WavCoding coding_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::vector<uint8_t> bytes_;
  uint64_t data_bytes_ = 0;
};

}  // namespace antiphon::audio
