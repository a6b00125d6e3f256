#include "audio/wav_writer.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "audio/pcm.h"

namespace antiphon::audio {
namespace {

constexpr uint32_t kToTheEnd = 0xFFFFFFFF;
constexpr uint32_t kHeaderBytes = 44;

void AppendLe(std::vector<uint8_t>* bytes, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void AppendText(std::vector<uint8_t>* bytes, const char* text) {
  bytes->insert(bytes->end(), text, text + 4);
}

uint32_t SampleBytes(WavCoding coding) { return coding == WavCoding::kPcm16 ? 2 : 4; }

}  // namespace

WavWriter::WavWriter(const std::string& path, int rate_hz, int channels, WavCoding coding)
    : path_(path), rate_hz_(rate_hz), channels_(channels), coding_(coding) {
  if (rate_hz < 1 || channels < 1 || channels > 64) {
    throw AudioError(path + ": expected a sample rate above 0 and 1 to 64 channels, found " +
                     std::to_string(rate_hz) + " Hz and " + std::to_string(channels));
  }
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (file_ == nullptr) Fail();
  WriteHeader(kToTheEnd, kToTheEnd);
}

WavWriter::~WavWriter() {
  try {
    Close();
  } catch (const AudioError&) {  // who wants to know calls Close
  }
}

void WavWriter::Fail() const {
  throw AudioError(path_ + ": cannot be written: " + std::strerror(errno));
}

void WavWriter::WriteHeader(uint32_t riff_bytes, uint32_t data_bytes) {
  const uint32_t frame_bytes = SampleBytes(coding_) * static_cast<uint32_t>(channels_);
  bytes_.clear();
  AppendText(&bytes_, "RIFF");
  AppendLe(&bytes_, riff_bytes, 4);
  AppendText(&bytes_, "WAVE");
  AppendText(&bytes_, "fmt ");
  AppendLe(&bytes_, 16, 4);
  AppendLe(&bytes_, coding_ == WavCoding::kPcm16 ? 1 : 3, 2);
  AppendLe(&bytes_, static_cast<uint32_t>(channels_), 2);
  AppendLe(&bytes_, static_cast<uint32_t>(rate_hz_), 4);
  AppendLe(&bytes_, static_cast<uint32_t>(rate_hz_) * frame_bytes, 4);
  AppendLe(&bytes_, frame_bytes, 2);
  AppendLe(&bytes_, SampleBytes(coding_) * 8, 2);
  AppendText(&bytes_, "data");
  AppendLe(&bytes_, data_bytes, 4);
  if (std::fwrite(bytes_.data(), 1, bytes_.size(), file_.get()) != bytes_.size()) Fail();
}

void WavWriter::Write(std::span<const float> samples) {
  bytes_.clear();
  for (const float sample : samples) {
    if (coding_ == WavCoding::kPcm16) {
      AppendLe(&bytes_, static_cast<uint16_t>(ToPcm16(sample)), 2);
    } else {
      AppendLe(&bytes_, std::bit_cast<uint32_t>(sample), 4);
    }
  }
  if (std::fwrite(bytes_.data(), 1, bytes_.size(), file_.get()) != bytes_.size()) Fail();
  data_bytes_ += bytes_.size();
}

void WavWriter::Close() {
  if (file_ == nullptr) return;
  if (data_bytes_ + kHeaderBytes < kToTheEnd && std::fseek(file_.get(), 0, SEEK_SET) == 0) {
    const auto data = static_cast<uint32_t>(data_bytes_);
    WriteHeader(data + kHeaderBytes - 8, data);
  }
  // Gone whatever fclose says: the destructor does not try again.
  if (std::fclose(file_.release()) != 0) Fail();
}

}  // namespace antiphon::audio
