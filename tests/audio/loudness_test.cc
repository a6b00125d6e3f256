#include "audio/loudness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace antiphon::audio {
namespace {

std::vector<float> Tone(double hz, double amplitude, int rate_hz, double seconds) {
  std::vector<float> out(static_cast<size_t>(seconds * rate_hz));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        amplitude * std::sin(2.0 * std::numbers::pi * hz * static_cast<double>(i) / rate_hz));
  }
  return out;
}

// BS.1770-4: a full-scale sine of 997 Hz in one channel reads -3.01 LUFS, at any rate.
TEST(LoudnessTest, FullScaleSineReadsAsTheStandardSays) {
  for (const int rate : {24000, 44100, 48000}) {
    EXPECT_NEAR(IntegratedLoudness(Tone(997.0, 1.0, rate, 3.0), rate), -3.01, 0.05) << rate;
  }
}

TEST(LoudnessTest, SilenceDoesNotCount) {
  std::vector<float> sound = Tone(997.0, 0.1, 24000, 3.0);
  const double loudness = IntegratedLoudness(sound, 24000);
  EXPECT_NEAR(loudness, -23.01, 0.05);
  sound.resize(sound.size() + 240000);
  EXPECT_NEAR(IntegratedLoudness(sound, 24000), loudness, 0.3);
}

TEST(LoudnessTest, NormalizingReachesTheLevel) {
  std::vector<float> sound = Tone(440.0, 0.9, 24000, 2.0);
  NormalizeLoudness(-24.0, 24000, &sound);
  EXPECT_NEAR(IntegratedLoudness(sound, 24000), -24.0, 0.01);
  std::vector<float> silence(24000);
  NormalizeLoudness(-24.0, 24000, &silence);
  EXPECT_EQ(silence, std::vector<float>(24000));
  EXPECT_TRUE(std::isinf(IntegratedLoudness(silence, 24000)));
}

}  // namespace
}  // namespace antiphon::audio
