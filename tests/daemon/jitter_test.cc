// Lossy and jittery callers in simulated time, through the real session, codec pool and Opus: the
// age of the oldest sample comes back under 300 ms within 2 s, and nobody else has a late frame.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "daemon/voice_connection.h"
#include "tests/daemon/session_rig.h"

namespace antiphon::daemon {
namespace {

using namespace std::chrono_literals;
using Client = FakeClient<VoiceConnection>;

class JitterTest : public ::testing::Test {
 protected:
  JitterTest() : bad(rig.table, rig.clock), good(rig.table, rig.clock) {
    for (Client* client : {&bad, &good}) {
      client->Open();
      client->Text(R"({"type":"start"})");
    }
    rig.Settle();
    rig.Turn();
    tick = rig.clock.Now();
  }

  std::vector<uint8_t> Packet() {
    float pcm[480];
    for (int i = 0; i < 480; ++i) pcm[i] = 0.3F * std::sin(static_cast<float>(phase++) * 0.1F);
    std::vector<uint8_t> message(1 + audio::kOpusMaxPacketBytes);
    message[0] = 1;
    message.resize(1 + encoder.Encode(pcm, std::span(message).subspan(1)));
    return message;
  }

  // Goes on by 20 ms: the bad caller makes a packet, which `arrives` tells whether the network
  // lets through now; what it holds back comes with the next that arrives.
  void Step(bool arrives, bool lost = false) {
    tick += 20ms;
    rig.clock.SleepUntil(tick);
    if (!lost) held.push_back(Packet());
    if (arrives) {
      for (const auto& packet : held) bad.Binary(packet);
      held.clear();
    }
    good.Binary(Packet());
    rig.Settle();
    if (++steps % 4 == 0) rig.Turn();
  }
  double OldestMs() { return rig.ticks.lane(0).in.stats(rig.clock.Now()).oldest_ms; }
  void ExpectTheOtherUntouched() {
    EXPECT_EQ(rig.ticks.lane(1).counters.late, 0U);
    EXPECT_EQ(good.socket.binaries.size() % 4, 0U);
    EXPECT_LE(rig.ticks.lane(1).counters.starved, 3U);
    EXPECT_EQ(rig.ticks.stats().missed, 0U);
  }
  // Two seconds of orderly arrivals, then a second in which the age stays low.
  void ExpectRecovery() {
    for (int i = 0; i < 100; ++i) Step(true);
    for (int i = 0; i < 50; ++i) {
      Step(true);
      EXPECT_LT(OldestMs(), 300.0);
    }
  }

  SessionRig rig;
  Client bad, good;
  audio::OpusEncoder encoder{audio::OpusEncoderOptions{}};
  std::vector<std::vector<uint8_t>> held;
  Time tick;
  int steps = 0;
  int phase = 0;
};

TEST_F(JitterTest, SteadyCallersAreNotStarved) {
  for (int i = 0; i < 500; ++i) Step(true);
  EXPECT_LT(OldestMs(), 200.0);
  EXPECT_LE(rig.ticks.lane(0).counters.starved, 3U);
  ExpectTheOtherUntouched();
}

TEST_F(JitterTest, StallsOf200ms) {
  for (int i = 0; i < 1500; ++i) {
    Step(i % 50 < 40);
    ASSERT_LT(OldestMs(), 500.0);
  }
  ExpectRecovery();
  ExpectTheOtherUntouched();
}

TEST_F(JitterTest, BurstsAtRandom) {
  std::mt19937 random(5);
  for (int i = 0; i < 1500; ++i) Step(random() % 6 == 0, random() % 20 == 0);
  ExpectRecovery();
  ExpectTheOtherUntouched();
}

TEST_F(JitterTest, AStallOf30sThenAFlood) {
  for (int i = 0; i < 100; ++i) Step(true);
  for (int i = 0; i < 1500; ++i) Step(false);
  const uint64_t starved = rig.ticks.lane(0).counters.starved;
  EXPECT_GE(starved, 370U);
  ExpectRecovery();
  ExpectTheOtherUntouched();
  // All but the last moments of the 30 s were cut, and counted.
  const auto stats = nlohmann::json::parse(*std::find_if(
      bad.socket.texts.rbegin(), bad.socket.texts.rend(),
      [](const std::string& text) { return text.find("\"stats\"") != std::string::npos; }));
  EXPECT_GT(stats["dropped_ms"], 29'000.0);
  EXPECT_EQ(rig.ticks.lane(0).counters.late, 0U);
  EXPECT_LE(rig.ticks.lane(0).counters.starved, starved + 4);
}

}  // namespace
}  // namespace antiphon::daemon
