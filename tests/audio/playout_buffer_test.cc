// The playout buffer in simulated time: a caller whose packets arrive as a script says, and a tick
// every 80 ms.
#include "audio/playout_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <thread>

#include "audio/status.h"

namespace antiphon::audio {
namespace {

using namespace std::chrono_literals;
using Time = PlayoutBuffer::Time;
using std::chrono::nanoseconds;

constexpr int kFrame = 1920, kPacket = 480;

// A caller's tone of 200 Hz; packet n is made at (n + 1) * 20 ms of his own clock and arrives when
// `delay` says, in order as on a TCP connection.
struct Call {
  explicit Call(const PlayoutOptions& options = {}) : buffer(options) {}

  // Goes on for `length`: every arrival and every tick at its time.
  void Run(nanoseconds length) {
    const nanoseconds end = now + length;
    while (true) {
      const nanoseconds made = nanoseconds(
          static_cast<int64_t>(static_cast<double>((sent + 1) * 20'000'000) * clock_ratio));
      if (held.empty()) held.push(std::max(made + delay(made), last_arrival));
      const nanoseconds next = std::min(held.front(), tick);
      if (next > end) break;
      now = std::max(now, next);
      if (held.front() <= tick) {
        last_arrival = held.front();
        held.pop();
        PushPacket();
      } else {
        Tick();
      }
    }
    now = end;
  }

  void PushPacket() {
    std::vector<float> pcm(kPacket);
    for (float& sample : pcm) {
      sample = 0.5F * static_cast<float>(std::sin(2.0 * M_PI * (phase++ % 120) / 120.0));
    }
    ++sent;
    if (lost()) return;
    buffer.Push(pcm, Time(now));
    Observe();
  }

  void Tick() {
    Observe();
    std::vector<float> frame(kFrame);
    const double before = buffer.stats(Time(now)).buffered_ms;
    const bool whole = buffer.Pull(frame.data(), Time(now));
    starved += whole ? 0 : 1;
    headroom_ms.push_back(before - 80.0);
    for (const float sample : frame) {
      EXPECT_TRUE(std::isfinite(sample));
      largest_step = std::max(largest_step, std::abs(sample - previous));
      previous = sample;
    }
    frames.push_back(std::move(frame));
    tick += 80ms;
  }

  void Observe() { oldest_ms = std::max(oldest_ms, buffer.stats(Time(now)).oldest_ms); }
  double MeanHeadroom(size_t last) const {
    double sum = 0.0;
    for (size_t i = headroom_ms.size() - last; i < headroom_ms.size(); ++i) sum += headroom_ms[i];
    return sum / static_cast<double>(last);
  }
  double DroppedMs() const {
    return static_cast<double>(buffer.stats(Time(now)).dropped_samples) / 24.0;
  }

  PlayoutBuffer buffer;
  std::function<nanoseconds(nanoseconds)> delay = [](nanoseconds) { return nanoseconds(5ms); };
  std::function<bool()> lost = [] { return false; };
  double clock_ratio = 1.0;  // duration of the caller's second in ours
  nanoseconds now{0}, tick{80ms}, last_arrival{0};
  std::queue<nanoseconds> held;
  int64_t sent = 0;
  int phase = 0;  // of the tone, samples; a period has 120
  int starved = 0;
  double oldest_ms = 0.0;
  std::vector<double> headroom_ms;
  std::vector<std::vector<float>> frames;
  float previous = 0.0F, largest_step = 0.0F;
};

// The largest step of the tone itself is 0.5 * 2 pi * 200 / 24000 = 0.026. A 5 ms fade adds less
// than that; a click would be a step of up to 1.
constexpr float kNoClick = 0.06F;

TEST(PlayoutBufferTest, AWellBehavedCallerWaitsForAFrameAndTheMarginOnly) {
  Call call;
  call.Run(10s);
  EXPECT_LE(call.starved, 2) << "before the first sound";
  EXPECT_NEAR(call.MeanHeadroom(100), 20.0, 10.0);
  call.starved = 0;
  call.oldest_ms = 0.0;
  call.Run(60s);
  EXPECT_EQ(call.starved, 0);
  EXPECT_NEAR(call.MeanHeadroom(500), 20.0, 5.0);
  EXPECT_LT(call.oldest_ms, 135.0);
  EXPECT_EQ(call.DroppedMs(), 0.0);
  EXPECT_LT(call.largest_step, kNoClick);
}

TEST(PlayoutBufferTest, WholePullsAtRatioOneGiveTheSoundUnchanged) {
  Call call;
  call.Run(2s);
  // Frames 10 and 11 are the tone, without a seam and at its level.
  double energy = 0.0;
  for (const float sample : call.frames[10]) energy += static_cast<double>(sample * sample);
  EXPECT_NEAR(std::sqrt(energy / kFrame), 0.5 / std::sqrt(2.0), 0.003);
  EXPECT_LT(call.largest_step, 0.03F);
}

TEST(PlayoutBufferTest, JitterDeepensItJustEnough) {
  for (const int jitter_ms : {10, 40, 80}) {
    Call call;
    std::mt19937 random(7);
    call.delay = [&](nanoseconds) {
      return nanoseconds(5ms) +
             nanoseconds(static_cast<int64_t>(random() % 1000) * jitter_ms * 1000);
    };
    call.Run(30s);
    call.starved = 0;
    call.oldest_ms = 0.0;
    call.Run(240s);
    EXPECT_LE(call.starved, 1) << jitter_ms;  // of 3000 frames
    // Smallest headroom at the margin, the mean above it by a packet and half the jitter.
    EXPECT_LT(call.MeanHeadroom(2000), 20.0 + jitter_ms + 25.0);
    EXPECT_LT(call.oldest_ms, 100.0 + jitter_ms + 60.0);
    EXPECT_EQ(call.DroppedMs(), 0.0);
    EXPECT_LT(call.largest_step, kNoClick);
  }
}

TEST(PlayoutBufferTest, DriftIsPlayedAwayForTenMinutes) {
  for (const double drift : {200e-6, -200e-6, 0.003, -0.003}) {
    Call call;
    call.clock_ratio = 1.0 + drift;
    call.Run(120s);
    call.starved = 0;
    call.oldest_ms = 0.0;
    const auto first = static_cast<std::ptrdiff_t>(call.headroom_ms.size());
    call.Run(600s);
    EXPECT_EQ(call.starved, 0) << drift;
    EXPECT_EQ(call.DroppedMs(), 0.0) << drift;
    const auto [low, high] =
        std::minmax_element(call.headroom_ms.begin() + first, call.headroom_ms.end());
    EXPECT_GT(*low, 5.0) << drift;
    EXPECT_LT(*high, 50.0) << drift;
    EXPECT_LT(call.oldest_ms, 150.0) << drift;
    EXPECT_NEAR(call.buffer.stats(Time(call.now)).ratio, 1.0 / (1.0 + drift), 0.0015) << drift;
    EXPECT_LT(call.largest_step, kNoClick) << drift;
  }
}

TEST(PlayoutBufferTest, PacketsOfEveryLengthAreHeardWithoutGaps) {
  for (const int packet_ms : {5, 10, 40, 60, 80, 120}) {
    PlayoutBuffer buffer{PlayoutOptions{}};
    const std::vector<float> pcm(static_cast<size_t>(24 * packet_ms), 0.3F);
    std::vector<float> frame(kFrame);
    int starved = 0;
    double oldest_ms = 0.0;
    for (int ms = 1; ms <= 60'000; ++ms) {
      const Time now(std::chrono::milliseconds{ms});
      if (ms % packet_ms == 3 % packet_ms) buffer.Push(pcm, now);
      if (ms > 20'000) oldest_ms = std::max(oldest_ms, buffer.stats(now).oldest_ms);
      if (ms % 80 == 0 && !buffer.Pull(frame.data(), now)) starved += ms > 20'000 ? 1 : 0;
    }
    EXPECT_EQ(starved, 0) << packet_ms;
    EXPECT_LT(oldest_ms, 80.0 + packet_ms + 60.0) << packet_ms;
    EXPECT_EQ(buffer.stats(Time(60s)).dropped_samples, 0U) << packet_ms;
  }
}

TEST(PlayoutBufferTest, StallsOf200msCostTheirGapAndNoLatency) {
  Call call;
  call.delay = [](nanoseconds made) {  // nothing passes in the last 200 ms of every 3 s
    const nanoseconds in_period = made % nanoseconds(3s);
    return in_period > 2800ms ? nanoseconds(3s) - in_period + 5ms : nanoseconds(5ms);
  };
  call.Run(60s);
  EXPECT_LT(call.oldest_ms, 300.0 + 200.0) << "in a stall what is held gets older";
  EXPECT_LE(call.starved, 2 + 20 * 3);
  EXPECT_LT(call.largest_step, kNoClick);
  call.delay = [](nanoseconds) { return nanoseconds(5ms); };
  call.Run(2s);
  call.oldest_ms = 0.0;
  call.starved = 0;
  call.Run(30s);
  EXPECT_LT(call.oldest_ms, 300.0);
  EXPECT_EQ(call.starved, 0);
}

TEST(PlayoutBufferTest, AFloodAfter30sIsCutAtOnceAndCounted) {
  Call call;
  call.Run(5s);
  bool stalled = true;
  call.delay = [&](nanoseconds made) {
    return stalled && made < 35s ? nanoseconds(35s) - made : nanoseconds(5ms);
  };
  call.Run(29'900ms);
  EXPECT_GE(call.starved, 370);
  EXPECT_EQ(call.buffer.stats(Time(call.now)).oldest_ms, 0.0) << "nothing is held";
  call.Run(110ms);  // the flood has come
  EXPECT_LE(call.buffer.stats(Time(call.now)).buffered_ms, 240.0);
  EXPECT_GT(call.DroppedMs(), 29'000.0);
  stalled = false;
  call.oldest_ms = 0.0;
  call.Run(2s);
  EXPECT_LT(call.oldest_ms, 300.0);
  call.starved = 0;
  call.oldest_ms = 0.0;
  call.Run(10s);
  EXPECT_EQ(call.starved, 0);
  EXPECT_LT(call.oldest_ms, 200.0) << "the excess is cut, not kept";
  EXPECT_LT(call.largest_step, kNoClick);
}

TEST(PlayoutBufferTest, MissingInputIsSilenceWithFades) {
  Call call;
  call.Run(4s);
  const int before = call.starved;
  bool away = true;
  call.lost = [&] { return away; };
  call.Run(2s);
  EXPECT_NEAR(call.starved - before, 25, 2);
  EXPECT_EQ(call.frames.back(), std::vector<float>(kFrame, 0.0F));
  EXPECT_EQ(call.buffer.stats(Time(call.now)).starved_frames, static_cast<uint64_t>(call.starved));
  away = false;
  call.Run(2s);
  EXPECT_LT(call.largest_step, kNoClick) << "faded out and in";
  EXPECT_EQ(call.buffer.stats(Time(call.now)).margin_ms, 10.0)
      << "a caller who was away is no reason for a deeper buffer";
  const auto& frame = call.frames.back();
  EXPECT_GT(*std::max_element(frame.begin(), frame.end()), 0.45F) << "and it is back";
}

TEST(PlayoutBufferTest, AShortWordIsHeardToItsEnd) {
  PlayoutBuffer buffer{PlayoutOptions{}};
  const std::vector<float> word(600, 0.5F);
  buffer.Push(word, Time(1s));
  std::vector<float> frame(kFrame);
  double sum = 0.0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(buffer.Pull(frame.data(), Time(1s + i * 80ms)));
    for (const float sample : frame) sum += static_cast<double>(sample);
  }
  EXPECT_NEAR(sum, 300.0, 75.0) << "fades cost and add at most 5 ms each";
  EXPECT_EQ(buffer.stats(Time(2s)).buffered_ms, 0.0);
  EXPECT_EQ(buffer.stats(Time(2s)).oldest_ms, 0.0);
}

TEST(PlayoutBufferTest, TheBoundHoldsWithOnePushAndWithMany) {
  PlayoutOptions options;
  PlayoutBuffer buffer(options);
  buffer.Push(std::vector<float>(24000 * 3, 0.1F), Time(1s));
  EXPECT_EQ(buffer.stats(Time(1s)).buffered_ms, 240.0);
  EXPECT_EQ(buffer.stats(Time(1s)).dropped_samples, 24000U * 3 - 5760);
  for (int i = 0; i < 1000; ++i) buffer.Push(std::vector<float>(77, 0.1F), Time(1s));
  EXPECT_EQ(buffer.stats(Time(1s)).buffered_ms, 240.0);
  EXPECT_EQ(buffer.stats(Time(1s)).dropped_samples, 24000U * 3 - 5760 + 77'000);
  EXPECT_EQ(buffer.stats(Time(1s + 50ms)).oldest_ms, 290.0);
  buffer.Reset();
  EXPECT_EQ(buffer.stats(Time(1s)).buffered_ms, 0.0);
  EXPECT_EQ(buffer.stats(Time(1s)).dropped_samples, 0U);
  std::vector<float> frame(kFrame, 1.0F);
  EXPECT_FALSE(buffer.Pull(frame.data(), Time(2s)));
  EXPECT_EQ(frame, std::vector<float>(kFrame, 0.0F)) << "nothing of the last caller";
}

TEST(PlayoutBufferTest, WhateverArrivesTheAgeIsLowAgainWithinTwoSeconds) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Call call;
    std::mt19937 random(seed);
    nanoseconds blocked_until{0};
    bool hostile = true;
    call.delay = [&](nanoseconds made) {
      if (hostile && random() % 40 == 0) {
        blocked_until = made + nanoseconds(1'000'000LL * (random() % (1U << (random() % 13))));
      }
      const nanoseconds jitter(1'000'000LL * (hostile ? random() % 60 : 5));
      return hostile && blocked_until > made ? blocked_until - made + jitter : jitter;
    };
    call.lost = [&] { return hostile && random() % 30 == 0; };
    call.clock_ratio = 1.0 + (static_cast<double>(random() % 2001) - 1000.0) * 2e-6;
    call.Run(60s);
    EXPECT_LT(call.largest_step, 0.12F) << seed;
    hostile = false;
    call.Run(std::max(blocked_until, call.now) - call.now);
    call.Run(2s);
    call.oldest_ms = 0.0;
    call.Run(20s);
    EXPECT_LT(call.oldest_ms, 300.0) << seed;
    call.starved = 0;
    call.oldest_ms = 0.0;
    call.Run(20s);
    EXPECT_EQ(call.starved, 0) << seed;
    EXPECT_LT(call.oldest_ms, 260.0) << seed;
  }
}

TEST(PlayoutBufferTest, ThreadsAtFullSpeedKeepEverySampleInOrderOrCutIt) {
  PlayoutOptions options;
  options.margin_ms = 0;
  PlayoutBuffer buffer(options);
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    // A ramp that grows for ever: whatever is cut, what is heard may only go up.
    float value = 1.0F;
    std::vector<float> pcm(997);
    while (!stop) {
      for (float& sample : pcm) sample = value += 1e-4F;
      buffer.Push(pcm, Time(std::chrono::steady_clock::now()));
      if (value > 900.0F) break;
    }
  });
  std::vector<float> frame(kFrame);
  float last = 0.0F;
  int whole_frames = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool whole = buffer.Pull(frame.data(), Time(std::chrono::steady_clock::now()));
    const PlayoutStats stats = buffer.stats(Time(std::chrono::steady_clock::now()));
    EXPECT_LE(stats.buffered_ms, 240.0);
    if (!whole) continue;
    ++whole_frames;
    EXPECT_GT(frame[kFrame - 1], last - 0.01F);
    last = frame[kFrame - 1];
  }
  stop = true;
  producer.join();
  EXPECT_GT(whole_frames, 0);
}

TEST(PlayoutBufferTest, OptionsThatContradictEachOtherAreNamed) {
  PlayoutOptions options;
  options.bound_ms = 150;
  EXPECT_THROW(PlayoutBuffer{options}, AudioError);
  options = {};
  options.frame_samples = 100;
  EXPECT_THROW(PlayoutBuffer{options}, AudioError);
}

}  // namespace
}  // namespace antiphon::audio
