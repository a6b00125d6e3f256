#include "audio/opus_codec.h"

#include <gtest/gtest.h>
#include <opus.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/audio/signals.h"

namespace antiphon::audio {
namespace {

using Packets = std::vector<std::vector<uint8_t>>;

// Packets of any duration and channel count, from libopus itself. frame_samples at 48 kHz.
Packets Foreign(int channels, int frame_samples, int application, int seconds = 1) {
  int error = 0;
  ::OpusEncoder* encoder = opus_encoder_create(48000, channels, application, &error);
  EXPECT_EQ(error, OPUS_OK);
  Packets packets;
  std::vector<float> pcm(static_cast<size_t>(frame_samples * channels));
  for (int at = 0; at < 48000 * seconds; at += frame_samples) {
    for (int i = 0; i < frame_samples; ++i) {
      for (int c = 0; c < channels; ++c) {
        pcm[static_cast<size_t>(i * channels + c)] =
            0.4F * static_cast<float>(std::sin(2.0 * M_PI * 440.0 * (at + i) / 48000.0));
      }
    }
    std::vector<uint8_t> packet(4000);
    const int bytes = opus_encode_float(encoder, pcm.data(), frame_samples, packet.data(), 4000);
    EXPECT_GT(bytes, 0);
    packet.resize(static_cast<size_t>(std::max(bytes, 0)));
    packets.push_back(std::move(packet));
  }
  opus_encoder_destroy(encoder);
  return packets;
}

std::vector<float> RoundTrip(const OpusEncoderOptions& options, const std::vector<float>& in) {
  OpusEncoder encoder(options);
  OpusDecoder decoder;
  std::vector<float> out;
  uint8_t packet[kOpusMaxPacketBytes];
  for (size_t at = 0; at + kOpusPacketSamples <= in.size(); at += kOpusPacketSamples) {
    const size_t bytes = encoder.Encode(&in[at], packet);
    EXPECT_EQ(OpusPacketSamples({packet, bytes}), kOpusPacketSamples);
    EXPECT_EQ(decoder.Decode({packet, bytes}, &out), Status::kOk);
  }
  // Aligned: the encoder's delay is at the start of what comes out.
  const auto delay = static_cast<std::ptrdiff_t>(encoder.lookahead_48k() / 2);
  EXPECT_GT(delay, 0);
  return {out.begin() + delay, out.end()};
}

TEST(OpusCodecTest, AToneSurvivesTheRoundTrip) {
  const std::vector<float> in = Tone(440.0, 24000, 48000, 0.4F);
  OpusEncoderOptions options;
  options.bitrate_bps = 64000;
  options.complexity = 10;
  options.application = OpusApplication::kAudio;
  EXPECT_GT(SnrDb(in, RoundTrip(options, in), 4800), 25.0);
  options.application = OpusApplication::kVoip;
  options.bitrate_bps = 32000;
  options.complexity = 5;
  // For speech the encoder filters, so phases differ; what is heard does not.
  const std::vector<float> speech = RoundTrip(options, in);
  EXPECT_NEAR(ToneAmplitude(std::span(speech).last(24000), 440.0, 24000), 0.4, 0.03);
  EXPECT_NEAR(Rms(std::span(speech).last(24000)), 0.4 / std::sqrt(2.0), 0.03);
}

TEST(OpusCodecTest, EveryLegalDurationInAnyMixKeepsTimeAndPitch) {
  OpusDecoder decoder;
  std::vector<float> out;
  size_t expected = 0;
  for (const int channels : {1, 2}) {
    for (const int quarter_ms : {10, 20, 40, 80, 160, 240, 320, 400, 480}) {
      const int frame = 12 * quarter_ms;  // samples at 48 kHz
      const int application =
          quarter_ms < 40 ? OPUS_APPLICATION_RESTRICTED_LOWDELAY : OPUS_APPLICATION_AUDIO;
      const Packets packets = Foreign(channels, frame, application);
      for (const auto& packet : packets) {
        ASSERT_EQ(OpusPacketSamples(packet), frame / 2);
        ASSERT_EQ(decoder.Decode(packet, &out), Status::kOk) << quarter_ms / 4.0 << " ms";
        expected += static_cast<size_t>(frame / 2);
        ASSERT_EQ(out.size(), expected);
      }
      // The last half second is the tone, whatever came before.
      const std::span<const float> end = std::span(out).last(12000);
      EXPECT_NEAR(ToneAmplitude(end, 440.0, 24000), 0.4, 0.04) << channels << " x " << quarter_ms;
    }
  }
}

TEST(OpusCodecTest, StereoIsMixedDown) {
  int error = 0;
  ::OpusEncoder* encoder = opus_encoder_create(48000, 2, OPUS_APPLICATION_AUDIO, &error);
  opus_encoder_ctl(encoder, OPUS_SET_BITRATE(256000));
  OpusDecoder decoder;
  std::vector<float> out;
  for (int n = 0; n < 50; ++n) {
    float pcm[2 * 960];
    for (int i = 0; i < 960; ++i) {
      const double t = (n * 960 + i) / 48000.0;
      pcm[2 * i] = 0.4F * static_cast<float>(std::sin(2 * M_PI * 500 * t));  // left only
      pcm[2 * i + 1] = 0.2F * static_cast<float>(std::sin(2 * M_PI * 1500 * t));
    }
    uint8_t packet[1500];
    const int bytes = opus_encode_float(encoder, pcm, 960, packet, sizeof(packet));
    ASSERT_EQ(decoder.Decode({packet, static_cast<size_t>(bytes)}, &out), Status::kOk);
  }
  opus_encoder_destroy(encoder);
  const std::span<const float> end = std::span(out).last(12000);
  EXPECT_NEAR(ToneAmplitude(end, 500.0, 24000), 0.2, 0.02);
  EXPECT_NEAR(ToneAmplitude(end, 1500.0, 24000), 0.1, 0.02);
}

TEST(OpusCodecTest, LostPacketsAreConcealedWithSoundThatGoesOn) {
  const Packets packets = Foreign(1, 960, OPUS_APPLICATION_VOIP, 2);
  OpusDecoder decoder;
  std::vector<float> out;
  for (size_t i = 0; i < packets.size(); ++i) {
    const size_t before = out.size();
    if (i % 10 == 9) {
      decoder.Conceal(480, &out);
      const double level = Rms(std::span(out).subspan(before));
      EXPECT_GT(level, 0.1) << "a tone of rms 0.28 does not stop at once";
    } else {
      ASSERT_EQ(decoder.Decode(packets[i], &out), Status::kOk);
    }
    ASSERT_EQ(out.size(), before + 480);
  }
  const size_t before = out.size();
  for (int i = 0; i < 25; ++i) decoder.Conceal(2880, &out);
  EXPECT_LT(Rms(std::span(out).last(2880)), 0.02) << "a long loss fades";
  EXPECT_EQ(out.size(), before + 25 * 2880);
  decoder.Conceal(0, &out);
  decoder.Conceal(77, &out);
  EXPECT_EQ(out.size(), before + 25 * 2880 + 77);
  ASSERT_EQ(decoder.Decode(packets[0], &out), Status::kOk);
}

TEST(OpusCodecTest, DiscontinuousTransmissionSendsNextToNothingInSilence) {
  OpusEncoderOptions options;
  options.dtx = true;
  OpusEncoder encoder(options);
  OpusDecoder decoder;
  std::vector<float> out, silence(kOpusPacketSamples, 0.0F);
  uint8_t packet[kOpusMaxPacketBytes];
  int small = 0;
  for (int i = 0; i < 100; ++i) {
    const size_t bytes = encoder.Encode(silence.data(), packet);
    ASSERT_GE(bytes, 1U);
    small += bytes <= 2 ? 1 : 0;
    ASSERT_EQ(decoder.Decode({packet, bytes}, &out), Status::kOk);
  }
  EXPECT_GT(small, 70);
  EXPECT_EQ(out.size(), 100U * kOpusPacketSamples);
  EXPECT_LT(Rms(out), 1e-3);
}

TEST(OpusCodecTest, MalformedPacketsGiveAStatusAndNothingElse) {
  OpusDecoder decoder;
  std::vector<float> out;
  EXPECT_EQ(decoder.Decode({}, &out), Status::kBadPacket);
  const std::vector<std::vector<uint8_t>> bad = {
      {0x03},        // code 3 without its count byte
      {0x03, 0x00},  // no frames
      {0x03, 0x3F},  // 63 frames of 10 ms
      {0xFB, 0x31},  // 49 frames
      {0x1B, 0x03},  // 3 frames of 60 ms: 180 ms
      {0x01, 0x00},  // two equal frames of half a byte
      {0x02, 0xFC},  // a first frame longer than the packet
  };
  for (const auto& packet : bad) {
    EXPECT_EQ(OpusPacketSamples(packet), -1) << static_cast<int>(packet[0]);
    EXPECT_EQ(decoder.Decode(packet, &out), Status::kBadPacket);
  }
  EXPECT_TRUE(out.empty());
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> packet(random() % 60);
    for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random());
    out.clear();
    const int samples = OpusPacketSamples(packet);
    if (decoder.Decode(packet, &out) == Status::kOk) {
      EXPECT_EQ(static_cast<int>(out.size()), samples);
    } else {
      EXPECT_TRUE(out.empty());
    }
  }
  // The decoder is as good as before.
  for (const auto& packet : Foreign(1, 960, OPUS_APPLICATION_AUDIO)) {
    ASSERT_EQ(decoder.Decode(packet, &out), Status::kOk);
  }
  EXPECT_NEAR(ToneAmplitude(std::span(out).last(12000), 440.0, 24000), 0.4, 0.04);
}

TEST(OpusCodecTest, WildSamplesAreClippedAndDoNotPoisonTheEncoder) {
  OpusEncoder encoder({});
  OpusDecoder decoder;
  std::vector<float> wild(kOpusPacketSamples, std::numeric_limits<float>::quiet_NaN()), out;
  wild[1] = std::numeric_limits<float>::infinity();
  wild[2] = -1e30F;
  uint8_t packet[kOpusMaxPacketBytes];
  size_t bytes = encoder.Encode(wild.data(), packet);
  ASSERT_EQ(decoder.Decode({packet, bytes}, &out), Status::kOk);
  const std::vector<float> tone = Tone(440.0, 24000, 24000, 0.4F);
  for (size_t at = 0; at < tone.size(); at += kOpusPacketSamples) {
    bytes = encoder.Encode(&tone[at], packet);
    ASSERT_EQ(decoder.Decode({packet, bytes}, &out), Status::kOk);
  }
  EXPECT_NEAR(ToneAmplitude(std::span(out).last(12000), 440.0, 24000), 0.4, 0.06);
  EXPECT_EQ(encoder.Encode(tone.data(), {}), 0U);
}

TEST(OpusCodecTest, OptionsOutOfRangeAreNamed) {
  OpusEncoderOptions options;
  options.complexity = 11;
  try {
    const OpusEncoder encoder(options);
    FAIL();
  } catch (const AudioError& error) {
    EXPECT_STREQ(error.what(), "Opus complexity: expected 0 to 10, found 11");
  }
}

}  // namespace
}  // namespace antiphon::audio
