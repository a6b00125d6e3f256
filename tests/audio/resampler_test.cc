#include "audio/resampler.h"

#include <gtest/gtest.h>

#include "tests/audio/signals.h"

namespace antiphon::audio {
namespace {

TEST(ResamplerTest, AToneKeepsPitchLevelAndLengthBetweenAnyRates) {
  for (const int from : {8000, 11025, 16000, 22050, 24000, 44100, 48000, 96000, 192000}) {
    for (const int to : {8000, 24000, 44100, 48000, 192000}) {
      const std::vector<float> in = Tone(1000.0, from, static_cast<size_t>(from), 0.5F);
      const std::vector<float> out = Resample(in, from, to);
      ASSERT_EQ(out.size(), static_cast<size_t>(to)) << from << " to " << to;
      const std::vector<float> expected = Tone(1000.0, to, out.size(), 0.5F);
      const size_t edge = out.size() / 5;
      EXPECT_GT(SnrDb(std::span(expected).first(out.size() - edge), out, edge), 60.0)
          << from << " to " << to;
    }
  }
}

TEST(ResamplerTest, AStreamInPiecesGivesWhatTheWholeGives) {
  const std::vector<float> in = Tone(300.0, 44100, 44100, 0.5F);
  const std::vector<float> whole = Resample(in, 44100, 24000);
  Resampler stream(44100, 24000);
  std::vector<float> out;
  for (int round = 0; round < 2; ++round) {  // Flush begins anew
    out.clear();
    size_t at = 0;
    for (size_t piece = 1; at < in.size(); piece = piece * 7 % 1009) {
      const size_t count = std::min(piece, in.size() - at);
      stream.Process(std::span(in).subspan(at, count), &out);
      stream.Process({}, &out);
      at += count;
    }
    stream.Flush(&out);
    ASSERT_NEAR(static_cast<double>(out.size()), 24000.0, 2.0);
    EXPECT_GT(SnrDb(whole, out, 0), 90.0);
  }
}

TEST(ResamplerTest, EqualRatesPassUnchangedAndOthersAreNamed) {
  const std::vector<float> in = Tone(300.0, 24000, 1000, 0.5F);
  EXPECT_EQ(Resample(in, 24000, 24000), in);
  EXPECT_TRUE(Resample({}, 48000, 24000).empty());
  for (const int rate : {0, -1, 7999, 192001}) {
    EXPECT_THROW(Resampler(rate, 24000), AudioError);
    EXPECT_THROW(Resampler(24000, rate), AudioError);
  }
}

}  // namespace
}  // namespace antiphon::audio
