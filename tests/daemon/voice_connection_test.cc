#include "daemon/voice_connection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <nlohmann/json.hpp>

#include "tests/daemon/session_rig.h"

namespace antiphon::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Client = FakeClient<VoiceConnection>;

class VoiceConnectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect() {
    auto client = std::make_unique<Client>(rig.table, rig.clock);
    client->Open();
    return client;
  }
  void Start(Client& client, const std::string& fields = "") {
    client.Text(R"({"type":"start")" + fields + "}");
    rig.Settle();
  }
  std::unique_ptr<Client> ConnectAndStart(const std::string& fields = "") {
    auto client = Connect();
    Start(*client, fields);
    rig.Turn();
    EXPECT_EQ(client->socket.Count("\"ready\""), 1U);
    return client;
  }
  json Last(const Client& client) {
    return client.socket.texts.empty() ? json() : json::parse(client.socket.texts.back());
  }

  SessionRig rig;
};

TEST_F(VoiceConnectionTest, HelloComesFirst) {
  const auto client = Connect();
  ASSERT_EQ(client->socket.texts.size(), 1U);
  EXPECT_EQ(Last(*client)["type"], "hello");
  EXPECT_EQ(Last(*client)["model"]["name"], "fake");
}

TEST_F(VoiceConnectionTest, StartReadyThenFourPacketsEachTick) {
  const auto client = ConnectAndStart();
  rig.Turns(9);
  ASSERT_EQ(client->socket.binaries.size(), 40U);
  for (const auto& message : client->socket.binaries) {
    EXPECT_EQ(message[0], 1);
    const std::span<const uint8_t> packet(message.data() + 1, message.size() - 1);
    EXPECT_EQ(audio::OpusPacketSamples(packet), 480);
  }
  EXPECT_EQ(rig.ticks.stats().late, 0U);
}

TEST_F(VoiceConnectionTest, PcmWhereAskedFor) {
  const auto client = ConnectAndStart(R"(,"audio":"pcm16")");
  rig.Turns(3);
  ASSERT_EQ(client->socket.binaries.size(), 16U);
  for (const auto& message : client->socket.binaries) {
    EXPECT_EQ(message[0], 2);
    EXPECT_EQ(message.size(), 1U + 960U);
  }
}

// The fake engine gives back what it hears, so a tone must come out as it went in.
TEST_F(VoiceConnectionTest, SoundOfEitherKindReachesTheEngineAndComesBack) {
  const auto client = ConnectAndStart(R"(,"audio":"pcm16")");
  audio::OpusEncoder encoder({});
  for (int packet = 0; packet < 40; ++packet) {
    float pcm[480];
    for (int i = 0; i < 480; ++i) {
      pcm[i] = 0.5F * std::sin(2.0F * 3.14159265F * 440.0F * static_cast<float>(packet * 480 + i) /
                               24000.0F);
    }
    std::vector<uint8_t> message(1);
    if (packet < 20) {
      uint8_t bytes[audio::kOpusMaxPacketBytes];
      const size_t size = encoder.Encode(pcm, bytes);
      message[0] = 1;
      message.insert(message.end(), bytes, bytes + size);
    } else {
      message[0] = 2;
      for (const float sample : pcm) {
        const auto value = static_cast<uint16_t>(static_cast<int16_t>(sample * 32767.0F));
        message.push_back(static_cast<uint8_t>(value));
        message.push_back(static_cast<uint8_t>(value >> 8));
      }
    }
    client->Binary(message);
    rig.Settle();
    if (packet % 4 == 3) rig.Turn();
  }
  rig.Turns(2);
  double energy = 0.0;
  for (const auto& message : client->socket.binaries) {
    for (size_t i = 1; i + 1 < message.size(); i += 2) {
      const auto sample = static_cast<int16_t>(message[i] | (message[i + 1] << 8));
      energy += std::pow(sample / 32768.0, 2);
    }
  }
  // 800 ms of a tone of amplitude 0.5.
  EXPECT_NEAR(energy / (0.125 * 24000 * 0.8), 1.0, 0.2);
}

TEST_F(VoiceConnectionTest, TextPiecesCarryTheTimeOfTheirFrame) {
  rig.engine.text_every = 5;
  const auto client = ConnectAndStart();
  rig.Turns(10);
  std::vector<int> times;
  for (const std::string& text : client->socket.texts) {
    const json message = json::parse(text);
    if (message["type"] != "text") continue;
    EXPECT_EQ(message["text"], " word");
    times.push_back(message["time_ms"]);
  }
  EXPECT_EQ(times, (std::vector<int>{0, 400, 800}));
}

TEST_F(VoiceConnectionTest, StatsComeOnceASecond) {
  const auto client = ConnectAndStart();
  rig.Turns(64);  // 5.1 s
  EXPECT_EQ(client->socket.Count("\"stats\""), 5U);
  const json stats = Last(*client);
  EXPECT_GT(stats["frames"], 60);
  EXPECT_EQ(stats["late"], 0);
  EXPECT_GT(stats["starved"], 60) << "a client that sends nothing is heard as silence";
}

TEST_F(VoiceConnectionTest, ProgressWhileThePromptRuns) {
  rig.engine.prompt_frames = 30;
  rig.engine.chunk_cost = 20ms;
  const auto client = Connect();
  Start(*client, R"(,"text_prompt":"You are kind.")");
  int turns = 0;
  while (client->socket.Count("\"ready\"") == 0) {
    rig.Turn();
    ASSERT_LT(++turns, 50);
  }
  EXPECT_GT(client->socket.Count("\"progress\""), 4U);
  int last = -1;
  for (const std::string& text : client->socket.texts) {
    const json message = json::parse(text);
    if (message["type"] != "progress") continue;
    EXPECT_GT(message["done_frames"], last);
    EXPECT_EQ(message["total_frames"], 30);
    last = message["done_frames"];
  }
  EXPECT_EQ(last, 30);
}

TEST_F(VoiceConnectionTest, OneTooManyIsRefusedWithATypeAndAHint) {
  const auto a = Connect(), b = Connect(), c = Connect();
  EXPECT_EQ(Last(*c)["code"], "busy");
  EXPECT_GT(Last(*c)["retry_after_ms"], 0);
  EXPECT_EQ(c->socket.close_code, 1013);
  EXPECT_EQ(a->socket.close_code, 0);
  c->Text(R"({"type":"start"})");  // what comes after is ignored
  c->Binary({1, 2, 3});
  c->connection->OnClose();
  a->Cut();
  EXPECT_EQ(Last(*Connect())["type"], "hello") << "a place that was not started is free at once";
}

TEST_F(VoiceConnectionTest, ByeIsAnsweredAndFreesThePlace) {
  const auto client = ConnectAndStart();
  client->Text(R"({"type":"bye"})");
  EXPECT_EQ(Last(*client)["type"], "bye");
  EXPECT_EQ(Last(*client)["reason"], "client");
  EXPECT_EQ(client->socket.close_code, 1000);
  rig.Turn();
  EXPECT_EQ(rig.table.free_lanes(), 2U);
  EXPECT_EQ(rig.engine.leaves, 1);
}

TEST_F(VoiceConnectionTest, FaultsAreAnsweredAndTheSessionGoesOn) {
  const auto client = ConnectAndStart();
  client->Text("{");
  EXPECT_EQ(Last(*client)["code"], "bad_message");
  client->Text(R"({"type":"start"})");
  EXPECT_EQ(Last(*client)["code"], "bad_message");
  client->Binary({1, 0xff, 0xff});  // a code 3 packet with 63 frames: too long
  EXPECT_EQ(Last(*client)["code"], "bad_message");
  client->Binary({2, 1});
  EXPECT_EQ(Last(*client)["code"], "bad_message");
  client->Text(R"({"type":"dance"})");
  client->Binary({77, 1});
  client->Text(R"({"type":"stats","buffer_ms":61,"underruns":2})");
  client->Text(R"({"type":"stats","buffer_ms":62,"underruns":3})");
  EXPECT_EQ(rig.table.peers().faulty, 4U);
  EXPECT_EQ(rig.table.peers().ignored, 2U);
  EXPECT_EQ(rig.table.peers().underruns, 3U);
  const size_t before = client->socket.binaries.size();
  rig.Turn();
  EXPECT_EQ(client->socket.binaries.size(), before + 4);
  EXPECT_EQ(client->socket.close_code, 0);
}

TEST_F(VoiceConnectionTest, TwentyFaultsCloseTheSession) {
  const auto client = Connect();
  for (int i = 0; i < 19; ++i) client->Text("?");
  EXPECT_EQ(client->socket.close_code, 0);
  client->Text("?");
  EXPECT_EQ(client->socket.close_code, 1008);
  EXPECT_EQ(rig.table.free_lanes(), 2U);
}

TEST_F(VoiceConnectionTest, ARefusedStartMayBeTriedAgain) {
  const auto client = Connect();
  Start(*client, R"(,"voice":"../etc/passwd")");
  EXPECT_EQ(Last(*client)["code"], "bad_option");
  EXPECT_EQ(Last(*client)["message"].get<std::string>().rfind("voice:", 0), 0U);
  Start(*client, R"(,"text_temperature":9)");
  EXPECT_EQ(Last(*client)["code"], "bad_option");
  Start(*client, R"(,"voice":"bass")");
  rig.Turn();
  EXPECT_EQ(client->socket.Count("\"ready\""), 1U);
}

TEST_F(VoiceConnectionTest, NoStartWithinTenSecondsCloses) {
  const auto client = Connect();
  rig.clock.Advance(9900ms);
  rig.table.OnClock(rig.clock.Now());
  EXPECT_EQ(client->socket.close_code, 0);
  rig.clock.Advance(200ms);
  rig.table.OnClock(rig.clock.Now());
  EXPECT_EQ(client->socket.close_code, 1008);
  EXPECT_EQ(rig.table.free_lanes(), 2U);
}

TEST(VoiceConnection, TheStartLimitIsTheConfiguredOne) {
  SessionRig rig(1, 3s);
  FakeClient<VoiceConnection> client(rig.table, rig.clock);
  client.Open();
  rig.clock.Advance(2900ms);
  rig.table.OnClock(rig.clock.Now());
  EXPECT_EQ(client.socket.close_code, 0);
  rig.clock.Advance(100ms);
  rig.table.OnClock(rig.clock.Now());
  EXPECT_EQ(client.socket.close_code, 1008);
  EXPECT_EQ(client.socket.close_reason, "no start within 3 s");
}

TEST_F(VoiceConnectionTest, ALostPacketIsConcealedAndCounted) {
  const auto client = ConnectAndStart();
  client->Binary({1});
  client->Binary({1});
  rig.Settle();
  rig.Turns(14);
  EXPECT_EQ(Last(*client)["lost"], 2);
  EXPECT_EQ(client->socket.close_code, 0);
}

TEST_F(VoiceConnectionTest, AClientThatDoesNotReadLosesFramesThenTheSession) {
  const auto slow = ConnectAndStart();
  const auto other = ConnectAndStart();
  rig.Turns(5);
  const size_t sent = slow->socket.binaries.size();
  const size_t others = other->socket.binaries.size();
  slow->socket.queued = 1 << 20;
  rig.Turns(50);
  EXPECT_EQ(slow->socket.binaries.size(), sent) << "nothing more is queued";
  EXPECT_EQ(slow->socket.close_code, 0);
  slow->socket.queued = 0;  // it recovers
  rig.Turn();
  EXPECT_EQ(slow->socket.binaries.size(), sent + 4);
  EXPECT_EQ(slow->connection != nullptr, true);
  slow->socket.queued = 1 << 20;
  rig.Turns(64);
  EXPECT_EQ(Last(*slow)["code"], "too_slow");
  EXPECT_EQ(slow->socket.close_code, 1008);
  EXPECT_EQ(other->socket.binaries.size(), others + 4 * 115);
  EXPECT_EQ(other->socket.Count("\"late\":0,"), other->socket.Count("\"stats\""));
}

TEST_F(VoiceConnectionTest, FramesHandedOverAfterTheNextTickAreLate) {
  const auto client = ConnectAndStart();
  rig.engine.tick_cost = 90ms;
  rig.Turns(4);
  rig.engine.tick_cost = 5ms;
  rig.Turns(20);
  // Four handed over late, and one skipped when the lag had grown to a quarter of a period.
  EXPECT_EQ(rig.ticks.lane(0).counters.late, 5U);
}

TEST_F(VoiceConnectionTest, DrainSaysGoodbyeAndRefusesTheNext) {
  const auto client = ConnectAndStart();
  rig.table.StopAdmitting();
  const auto late = Connect();
  EXPECT_EQ(Last(*late)["code"], "draining");
  EXPECT_EQ(late->socket.close_code, 1013);
  rig.table.EndAll(SessionEvents::End::kDraining);
  EXPECT_EQ(Last(*client)["type"], "bye");
  EXPECT_EQ(Last(*client)["reason"], "draining");
  EXPECT_EQ(client->socket.close_code, 1001);
  rig.Turn();
  EXPECT_EQ(rig.table.free_lanes(), 2U);
}

TEST_F(VoiceConnectionTest, AnEngineWithoutRoomEndsTheSessionAsInternal) {
  engine::SlotId taken;
  FakeEngine::Prepared prepared;
  ASSERT_TRUE(rig.engine.Join(prepared, &taken));
  ASSERT_TRUE(rig.engine.Join(prepared, &taken));
  const auto client = Connect();
  Start(*client);
  rig.Turn();
  EXPECT_EQ(client->socket.Count("\"internal\""), 2U);
  EXPECT_EQ(client->socket.close_code, 1011);
  rig.Turn();
  EXPECT_EQ(rig.table.free_lanes(), 2U);
}

// Closing at every state: the slot is free within a second, and the next caller has it whole.
enum class At {
  kConnecting,
  kPreparing,
  kPrepared,
  kPrefill,
  kRunning,
  kRunningWithWork,
  kBye,
  kDraining
};

class CloseTest : public VoiceConnectionTest, public ::testing::WithParamInterface<At> {};

TEST_P(CloseTest, FreesTheSlotWithinASecond) {
  const At at = GetParam();
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  rig.engine.prompt_frames = 1000;
  rig.engine.chunk_cost = 20ms;
  if (at == At::kPreparing) rig.engine.in_prepare = [gone] { gone.wait(); };
  auto client = Connect();
  const bool prompted = at == At::kPrefill;
  if (at != At::kConnecting) {
    client->Text(prompted ? R"({"type":"start","text_prompt":"x"})" : R"({"type":"start"})");
  }
  if (at == At::kPreparing) {
    client->Cut();  // must not wait for the preparation
    go.set_value();
  }
  rig.Settle();
  if (at == At::kPrefill) rig.Turns(3);
  if (at == At::kRunning || at == At::kBye || at == At::kDraining) rig.Turns(3);
  if (at == At::kRunningWithWork) {
    rig.Turns(2);
    rig.ticks.Turn();
    rig.table.OnWake();  // encode jobs are under way, their results not yet taken
    client->Binary({1});
  }
  if (at == At::kBye) client->Text(R"({"type":"bye"})");
  if (at == At::kDraining) rig.table.EndAll(SessionEvents::End::kDraining);
  if (client->connection != nullptr) client->Cut();
  const Time cut = rig.clock.Now();
  rig.Settle();
  while (rig.table.free_lanes() < 2) {
    rig.Turn();
    ASSERT_LE(rig.clock.Now() - cut, 1s);
  }
  EXPECT_EQ(rig.table.open_sessions(), 0U);
  EXPECT_EQ(rig.engine.joins, rig.engine.leaves);
  rig.engine.in_prepare = nullptr;
  const auto next = ConnectAndStart();
  rig.Turns(3);
  EXPECT_EQ(next->socket.binaries.size(), 16U);
}

INSTANTIATE_TEST_SUITE_P(EveryState, CloseTest,
                         ::testing::Values(At::kConnecting, At::kPreparing, At::kPrepared,
                                           At::kPrefill, At::kRunning, At::kRunningWithWork,
                                           At::kBye, At::kDraining));

TEST_F(VoiceConnectionTest, TheNextCallerHearsNothingOfTheLast) {
  SessionRig one(1);
  for (int caller = 0; caller < 3; ++caller) {
    Client client(one.table, one.clock);
    client.Open();
    client.Text(R"({"type":"start","audio":"pcm16"})");
    one.Settle();
    one.Turns(6);
    for (const auto& message : client.socket.binaries) {
      EXPECT_EQ(std::count(message.begin() + 1, message.end(), 0), 960) << "caller " << caller;
    }
    EXPECT_EQ(client.socket.binaries.size(), 24U);
    // Loud sound, some of it still under way at the cut.
    std::vector<uint8_t> loud(1 + 2 * 1920, 0x40);
    loud[0] = 2;
    for (int i = 0; i < 4; ++i) client.Binary(loud);
    one.Settle();
    one.Turns(2);
    client.Binary(loud);
    client.Binary(loud);
    one.ticks.Turn();
    one.table.OnWake();
    client.Cut();
    one.Settle();
    one.Turn();
  }
}

}  // namespace
}  // namespace antiphon::daemon
