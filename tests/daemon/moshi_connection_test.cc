#include "daemon/moshi_connection.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/session_rig.h"

namespace antiphon::daemon {
namespace {

using Client = FakeClient<MoshiConnection>;
using Query = std::map<std::string, std::string>;

engine::EngineInfo PersonaInfo() {
  engine::EngineInfo info;
  info.voices = {"NATF0", "NATM1"};
  info.takes_text_prompt = true;
  return info;
}

TEST(MoshiQueryTest, TheWebClientsKeys) {
  const MoshiRequest request =
      ParseMoshiQuery({{"text_temperature", "0.7"},
                       {"text_topk", "25"},
                       {"audio_temperature", "0.8"},
                       {"audio_topk", "250"},
                       {"pad_mult", "0"},
                       {"text_seed", "17"},
                       {"audio_seed", "4"},
                       {"repetition_penalty_context", "64"},
                       {"repetition_penalty", "1.0"},
                       {"text_prompt", "You enjoy having a good conversation."},
                       {"voice_prompt", "NATF0.pt"},
                       {"email", "a@b"}},
                      PersonaInfo());
  EXPECT_EQ(request.fault, "");
  EXPECT_EQ(request.options.voice, "NATF0");
  EXPECT_EQ(request.options.text_prompt, "You enjoy having a good conversation.");
  EXPECT_EQ(request.options.text.temperature, 0.7F);
  EXPECT_EQ(request.options.text.top_k, 25);
  EXPECT_EQ(request.options.audio.temperature, 0.8F);
  EXPECT_EQ(request.options.audio.top_k, 250);
  EXPECT_TRUE(request.has_seed);
  EXPECT_EQ(request.options.seed, 17U | (uint64_t{4} << 32));
  EXPECT_FALSE(request.metadata);
}

TEST(MoshiQueryTest, NamesAreTakenWithOrWithoutSuffix) {
  for (const char* name : {"NATM1", "NATM1.pt", "NATM1.wav"}) {
    EXPECT_EQ(ParseMoshiQuery({{"voice_prompt", name}}, PersonaInfo()).options.voice, "NATM1");
  }
  EXPECT_EQ(ParseMoshiQuery({{"voice_prompt", ""}}, PersonaInfo()).options.voice, "");
}

TEST(MoshiQueryTest, AModelWithoutPromptsPassesThemOver) {
  const MoshiRequest request =
      ParseMoshiQuery({{"voice_prompt", "NATF0.pt"}, {"text_prompt", "x"}}, engine::EngineInfo());
  EXPECT_EQ(request.fault, "");
  EXPECT_EQ(request.options.voice, "");
  EXPECT_EQ(request.options.text_prompt, "");
}

TEST(MoshiQueryTest, FaultsNameTheKey) {
  for (const auto& [key, value] : Query{{"text_temperature", "hot"},
                                        {"audio_temperature", "-1"},
                                        {"text_topk", "2.5"},
                                        {"audio_topk", ""},
                                        {"seed", "99999999999999999999999"}}) {
    const MoshiRequest request = ParseMoshiQuery({{key, value}}, PersonaInfo());
    EXPECT_EQ(request.fault.rfind(key + ": expected", 0), 0U) << request.fault;
  }
}

class MoshiConnectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect(const Query& query = {}) {
    auto client = std::make_unique<Client>(rig.table, rig.clock);
    client->socket.connection.query = query;
    client->Open();
    rig.Settle();
    return client;
  }
  static std::vector<uint8_t> Audio(std::span<const uint8_t> ogg) {
    return MoshiMessage(MoshiKind::kAudio, ogg);
  }
  // A page with 20 ms of a square wave, as a client sends it.
  std::vector<uint8_t> LoudPage() {
    float pcm[480];
    for (int i = 0; i < 480; ++i) pcm[i] = (i / 30) % 2 == 0 ? 0.5F : -0.5F;
    uint8_t bytes[audio::kOpusMaxPacketBytes];
    const size_t size = encoder.Encode(pcm, bytes);
    return muxer.Page(std::span(bytes, size), 960);
  }

  SessionRig rig;
  audio::OpusEncoder encoder{audio::OpusEncoderOptions{}};
  audio::OggMuxer muxer{7, audio::OpusHead{}, "test"};
};

TEST_F(MoshiConnectionTest, HandshakeHeadersThenOnePageAPacket) {
  const auto client = Connect();
  rig.Turns(5);
  const auto& messages = client->socket.binaries;
  ASSERT_EQ(messages.size(), 22U);
  EXPECT_EQ(messages[0], std::vector<uint8_t>(9, 0));
  audio::OggDemuxer demuxer;
  size_t packets = 0;
  for (size_t i = 1; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i][0], 1);
    demuxer.Push(std::span(messages[i]).subspan(1), [&](std::span<const uint8_t> packet) {
      EXPECT_EQ(audio::OpusPacketSamples(packet), 480);
      ++packets;
    });
    if (i >= 1) {
      EXPECT_EQ(std::string(messages[i].begin() + 1, messages[i].begin() + 5), "OggS");
    }
  }
  EXPECT_EQ(packets, 20U);
  EXPECT_EQ(demuxer.faults(), 0U);
  EXPECT_EQ(demuxer.head().channels, 1);
  EXPECT_EQ(demuxer.head().pre_skip, 3840);
  EXPECT_EQ(demuxer.head().input_rate_hz, 48000);
  EXPECT_TRUE(client->socket.texts.empty());
}

TEST_F(MoshiConnectionTest, HeaderPagesSentBeforeTheHandshakeAreKept) {
  const auto client = Connect();
  client->Binary(Audio(muxer.Headers()));
  client->Binary(Audio(LoudPage()));  // before the handshake: dropped
  rig.Turn();
  EXPECT_EQ(client->socket.binaries.size(), 6U);
  for (int packet = 0; packet < 40; ++packet) {
    client->Binary(Audio(LoudPage()));
    rig.Settle();
    if (packet % 4 == 3) rig.Turn();
  }
  const TickStats stats = rig.ticks.stats();
  EXPECT_EQ(stats.frames, 11U);
  EXPECT_LE(stats.starved, 3U);
}

TEST_F(MoshiConnectionTest, PagesMayBeCutAnywhere) {
  const auto client = Connect();
  rig.Turn();
  std::vector<uint8_t> ogg = muxer.Headers();
  for (int i = 0; i < 40; ++i) {
    const auto page = LoudPage();
    ogg.insert(ogg.end(), page.begin(), page.end());
  }
  for (size_t at = 0; at < ogg.size(); at += 37) {
    client->Binary(Audio(std::span(ogg).subspan(at, std::min<size_t>(37, ogg.size() - at))));
  }
  rig.Settle();
  rig.Turn();
  EXPECT_EQ(rig.ticks.stats().starved, 1U) << "only the tick before the sound";
}

TEST_F(MoshiConnectionTest, TextIsSentAsPieces) {
  rig.engine.text_every = 2;
  const auto client = Connect();
  rig.Turns(4);
  size_t pieces = 0;
  for (const auto& message : client->socket.binaries) {
    if (message[0] != 2) continue;
    EXPECT_EQ(std::string(message.begin() + 1, message.end()), " word");
    ++pieces;
  }
  EXPECT_EQ(pieces, 2U);
}

TEST_F(MoshiConnectionTest, MetadataOnlyWhereAskedFor) {
  const auto client = Connect({{"metadata", "1"}});
  rig.Turn();
  ASSERT_GE(client->socket.binaries.size(), 2U);
  const auto& message = client->socket.binaries[1];
  ASSERT_EQ(message[0], 4);
  const auto metadata = nlohmann::json::parse(message.begin() + 1, message.end());
  EXPECT_TRUE(metadata["text_temperature"].is_number());
  EXPECT_TRUE(metadata["build_info"]["git_hash"].is_string());
}

TEST_F(MoshiConnectionTest, OtherKindsAndGarbageAreIgnored) {
  const auto client = Connect();
  rig.Turn();
  for (const std::vector<uint8_t>& message : std::vector<std::vector<uint8_t>>{{},
                                                                               {0},
                                                                               {0, 0, 0},
                                                                               {3, 0},
                                                                               {3, 99},
                                                                               {4, '{'},
                                                                               {6},
                                                                               {9, 1},
                                                                               {255},
                                                                               {1},
                                                                               {1, 'O', 'g', 'g'},
                                                                               {1, 0xff, 0xff}}) {
    client->Binary(message);
  }
  client->Text("hello");
  const size_t before = client->socket.binaries.size();
  rig.Turn();
  EXPECT_EQ(client->socket.binaries.size(), before + 4);
  EXPECT_EQ(client->socket.close_code, 0);
}

TEST_F(MoshiConnectionTest, OneTooManyIsAcceptedAndClosedSoThatItTriesAgain) {
  const auto a = Connect(), b = Connect(), c = Connect();
  EXPECT_EQ(c->socket.close_code, 1013);
  ASSERT_EQ(c->socket.binaries.size(), 1U);
  EXPECT_EQ(c->socket.binaries[0][0], 5);
}

TEST_F(MoshiConnectionTest, AnUnknownVoiceIsATypedError) {
  const auto client = Connect({{"voice_prompt", "../../secret.pt"}});
  ASSERT_EQ(client->socket.binaries.size(), 1U);
  const std::string error(client->socket.binaries[0].begin() + 1, client->socket.binaries[0].end());
  EXPECT_EQ(client->socket.binaries[0][0], 5);
  EXPECT_EQ(error.rfind("voice:", 0), 0U) << error;
  EXPECT_EQ(client->socket.close_code, 1008);
  EXPECT_LE(client->socket.close_reason.size(), 123U);
  EXPECT_EQ(rig.table.free_lanes(), 2U);
}

TEST_F(MoshiConnectionTest, ResetWhileRunningFreesTheSlot) {
  const auto client = Connect();
  rig.Turns(3);
  client->Cut();
  rig.Turn();
  EXPECT_EQ(rig.table.free_lanes(), 2U);
  EXPECT_EQ(rig.engine.leaves, 1);
}

TEST_F(MoshiConnectionTest, DrainCloses1001) {
  const auto client = Connect();
  rig.Turn();
  rig.table.EndAll(SessionEvents::End::kDraining);
  EXPECT_EQ(client->socket.close_code, 1001);
}

}  // namespace
}  // namespace antiphon::daemon
