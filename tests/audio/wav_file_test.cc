#include "audio/wav_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/audio/signals.h"

namespace antiphon::audio {
namespace {

using Bytes = std::vector<uint8_t>;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

void Le(Bytes* bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

Bytes Chunk(const char* id, const Bytes& body, int64_t size = -1, bool pad = true) {
  Bytes chunk(id, id + 4);
  Le(&chunk, size < 0 ? body.size() : static_cast<uint64_t>(size), 4);
  chunk.insert(chunk.end(), body.begin(), body.end());
  if (pad && body.size() % 2 == 1) chunk.push_back(0);
  return chunk;
}

Bytes Format(int tag, int channels, int rate, int bits) {
  Bytes format;
  Le(&format, static_cast<uint64_t>(tag), 2);
  Le(&format, static_cast<uint64_t>(channels), 2);
  Le(&format, static_cast<uint64_t>(rate), 4);
  const int frame = channels * ((bits + 7) / 8);
  Le(&format, static_cast<uint64_t>(rate) * static_cast<uint64_t>(frame), 4);
  Le(&format, static_cast<uint64_t>(frame), 2);
  Le(&format, static_cast<uint64_t>(bits), 2);
  return format;
}

Bytes Extensible(int tag, int channels, int rate, int bits) {
  Bytes format = Format(0xFFFE, channels, rate, bits);
  Le(&format, 22, 2);
  Le(&format, static_cast<uint64_t>(bits), 2);
  Le(&format, 0, 4);
  Le(&format, static_cast<uint64_t>(tag), 2);
  for (const int byte : {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71}) {
    format.push_back(static_cast<uint8_t>(byte));
  }
  return format;
}

Bytes Riff(const std::vector<Bytes>& chunks) {
  Bytes body = {'W', 'A', 'V', 'E'};
  for (const Bytes& chunk : chunks) body.insert(body.end(), chunk.begin(), chunk.end());
  return Chunk("RIFF", body);
}

const Bytes kFour = {0x00, 0x40, 0x00, 0xC0, 0xFF, 0x7F, 0x00, 0x80};  // .5 -.5 ~1 -1

auto AreFour() {
  return ElementsAre(FloatNear(0.5F, 1e-6F), FloatNear(-0.5F, 1e-6F), FloatNear(1.0F, 1e-4F),
                     FloatNear(-1.0F, 1e-6F));
}

Sound Parse(const Bytes& bytes) { return ParseWav(bytes, "test.wav"); }

std::string ErrorOf(const Bytes& bytes) {
  try {
    Parse(bytes);
  } catch (const AudioError& error) {
    return error.what();
  }
  return "no error";
}

TEST(WavFileTest, EverySampleWidth) {
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(1, 1, 24000, 16)), Chunk("data", kFour)})).samples,
              AreFour());
  EXPECT_THAT(
      Parse(Riff({Chunk("fmt ", Format(1, 1, 8000, 8)), Chunk("data", {0, 64, 128, 192})})).samples,
      ElementsAre(-1.0F, -0.5F, 0.0F, 0.5F));
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(1, 1, 48000, 24)),
                          Chunk("data", {0, 0, 0x40, 0, 0, 0x80, 0, 0, 0})}))
                  .samples,
              ElementsAre(0.5F, -1.0F, 0.0F));
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(1, 1, 48000, 32)),
                          Chunk("data", {0, 0, 0, 0x40, 0, 0, 0, 0x80})}))
                  .samples,
              ElementsAre(0.5F, -1.0F));
  Bytes floats, doubles;
  for (const float value : {0.25F, -3.5F, std::numeric_limits<float>::quiet_NaN()}) {
    Le(&floats, std::bit_cast<uint32_t>(value), 4);
    Le(&doubles, std::bit_cast<uint64_t>(static_cast<double>(value)), 8);
  }
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(3, 1, 1, 32)), Chunk("data", floats)})).samples,
              ElementsAre(0.25F, -3.5F, 0.0F));
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(3, 1, 1, 64)), Chunk("data", doubles)})).samples,
              ElementsAre(0.25F, -3.5F, 0.0F));
}

TEST(WavFileTest, TwelveBitsLieHighInTheirContainer) {
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", Format(1, 1, 24000, 12)), Chunk("data", kFour)})).samples,
              AreFour());
  Bytes twenty = Extensible(1, 1, 24000, 20);
  twenty[12] = 4;  // in 32-bit containers
  EXPECT_THAT(Parse(Riff({Chunk("fmt ", twenty), Chunk("data", {0, 0, 0, 0x40})})).samples,
              ElementsAre(0.5F));
}

TEST(WavFileTest, ExtensibleFormats) {
  const Sound pcm = Parse(Riff({Chunk("fmt ", Extensible(1, 2, 44100, 16)), Chunk("data", kFour)}));
  EXPECT_THAT(pcm.samples, AreFour());
  EXPECT_EQ(pcm.channels, 2);
  EXPECT_EQ(pcm.rate_hz, 44100);
  EXPECT_EQ(pcm.frames(), 2U);
  Bytes half;
  Le(&half, std::bit_cast<uint32_t>(0.5F), 4);
  EXPECT_THAT(
      Parse(Riff({Chunk("fmt ", Extensible(3, 1, 44100, 32)), Chunk("data", half)})).samples,
      ElementsAre(0.5F));
}

TEST(WavFileTest, OtherChunksAndPadBytesAnywhere) {
  const Bytes odd = {1, 2, 3};
  EXPECT_THAT(Parse(Riff({Chunk("JUNK", Bytes(28, 7)), Chunk("bext", odd),
                          Chunk("fmt ", Format(1, 1, 24000, 16)), Chunk("LIST", odd),
                          Chunk("fact", Bytes(4, 0)), Chunk("data", kFour), Chunk("LIST", odd)}))
                  .samples,
              AreFour());
  const Bytes five(5, 128);  // an odd data chunk
  EXPECT_EQ(
      Parse(Riff({Chunk("fmt ", Format(1, 1, 8000, 8)), Chunk("data", five), Chunk("LIST", odd)}))
          .samples.size(),
      5U);
}

TEST(WavFileTest, DataSizesThatStreamingWritersLeave) {
  const Bytes format = Chunk("fmt ", Format(1, 1, 24000, 16));
  for (const int64_t size : {int64_t{0}, int64_t{0xFFFFFFFF}, int64_t{0x7FFFFFFF}, int64_t{9}}) {
    EXPECT_THAT(Parse(Riff({format, Chunk("data", kFour, size)})).samples, AreFour()) << size;
  }
  Bytes cut = Riff({format, Chunk("data", kFour)});
  cut.pop_back();
  EXPECT_EQ(Parse(cut).samples.size(), 3U) << "half a sample is left out";
  EXPECT_EQ(Parse(Riff({format, Chunk("data", {})})).samples.size(), 0U);
  EXPECT_EQ(Parse(Riff({Chunk("fmt ", Format(1, 3, 24000, 16)), Chunk("data", kFour)})).frames(),
            1U);
}

TEST(WavFileTest, ErrorsAreOneSentence) {
  const Bytes data = Chunk("data", kFour);
  EXPECT_THAT(ErrorOf({}), HasSubstr("test.wav: expected a WAV file"));
  EXPECT_THAT(ErrorOf(Bytes(500, 'x')), HasSubstr("found 500 bytes of something else"));
  EXPECT_THAT(ErrorOf(Riff({data})), HasSubstr("expected a fmt chunk before the data chunk"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(1, 1, 24000, 16))})),
              HasSubstr("expected a data chunk, found none"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Bytes(15)), data})), HasSubstr("found 15"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(0x55, 1, 24000, 16)), data})),
              HasSubstr("found format tag 85"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(1, 0, 24000, 16)), data})),
              HasSubstr("channels: expected at least 1, found 0"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(1, 1, 0, 16)), data})),
              HasSubstr("sample rate: expected"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(3, 1, 24000, 16)), data})),
              HasSubstr("expected 32 or 64, found 16"));
  EXPECT_THAT(ErrorOf(Riff({Chunk("fmt ", Format(1, 1, 24000, 48)), data})),
              HasSubstr("expected 8, 16, 24 or 32, found 48"));
  EXPECT_THROW(ReadWav("/nonexistent/a.wav"), AudioError);
}

TEST(WavFileTest, EveryPrefixOfAFileIsReadOrRefused) {
  const Bytes file = Riff({Chunk("JUNK", {1, 2, 3}), Chunk("fmt ", Extensible(1, 2, 44100, 24)),
                           Chunk("data", Bytes(60, 1))});
  for (size_t size = 0; size <= file.size(); ++size) {
    try {
      EXPECT_LE(Parse({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}).frames(),
                10U);
    } catch (const AudioError&) {
    }
  }
}

TEST(WavFileTest, ToMonoAveragesAndResamples) {
  Sound sound;
  sound.rate_hz = 48000;
  sound.channels = 2;
  for (const float value : Tone(500.0, 48000, 48000, 0.8F)) {
    sound.samples.push_back(value);
    sound.samples.push_back(0.0F);
  }
  const std::vector<float> mono = ToMono(sound, 24000);
  ASSERT_EQ(mono.size(), 24000U);
  EXPECT_NEAR(ToneAmplitude(std::span(mono).subspan(6000, 12000), 500.0, 24000), 0.4, 0.002);
}

class WavWriterTest : public ::testing::Test {
 protected:
  WavWriterTest()
      : folder(std::filesystem::temp_directory_path() /
               ("antiphon_wav_" + std::to_string(getpid()))),
        path(folder / "a.wav") {
    std::filesystem::create_directories(folder);
  }
  ~WavWriterTest() override { std::filesystem::remove_all(folder); }

  const std::filesystem::path folder;
  const std::string path;
};

TEST_F(WavWriterTest, WhatIsWrittenIsRead) {
  const std::vector<float> samples = {0.5F, -0.5F, 2.0F, -2.0F, 0.0F, 1e-5F};
  for (const WavCoding coding : {WavCoding::kPcm16, WavCoding::kFloat32}) {
    WavWriter writer(path, 44100, 2, coding);
    writer.Write(std::span(samples).first(2));
    writer.Write(std::span(samples).subspan(2));
    writer.Close();
    writer.Close();
    const Sound sound = ReadWav(path);
    EXPECT_EQ(sound.rate_hz, 44100);
    EXPECT_EQ(sound.channels, 2);
    ASSERT_EQ(sound.frames(), 3U);
    if (coding == WavCoding::kFloat32) {
      EXPECT_EQ(sound.samples, samples);
    } else {
      EXPECT_THAT(sound.samples, ElementsAre(0.5F, -0.5F, FloatNear(1.0F, 1e-4F), -1.0F, 0.0F,
                                             FloatNear(0.0F, 1e-4F)));
    }
    EXPECT_EQ(std::filesystem::file_size(path), 44U + 6U * (coding == WavCoding::kPcm16 ? 2U : 4U));
  }
}

TEST_F(WavWriterTest, AFileNotYetClosedCanBeRead) {
  WavWriter writer(path, 24000, 1);
  writer.Write(std::vector<float>(20000, 0.25F));  // more than stdio buffers
  const Sound sound = ReadWav(path);
  EXPECT_GT(sound.frames(), 10000U);
  EXPECT_EQ(sound.samples[5000], 0.25F);
}

TEST_F(WavWriterTest, WhatCannotBeWrittenIsNamed) {
  EXPECT_THROW(WavWriter(folder / "none" / "a.wav", 24000, 1), AudioError);
  EXPECT_THROW(WavWriter(path, 0, 1), AudioError);
  EXPECT_THROW(WavWriter(path, 24000, 65), AudioError);
  if (!std::filesystem::exists("/dev/full")) return;
  WavWriter full("/dev/full", 24000, 1);
  EXPECT_THROW(
      {
        full.Write(std::vector<float>(100000, 0.1F));
        full.Close();
      },
      AudioError);
}

}  // namespace
}  // namespace antiphon::audio
