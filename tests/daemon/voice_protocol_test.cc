#include "daemon/voice_protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace antiphon::daemon {
namespace {

using nlohmann::json;

engine::SessionOptions Defaults() {
  engine::SessionOptions defaults;
  defaults.text = {0.7F, 25};
  defaults.audio = {0.8F, 250};
  return defaults;
}

template <class T>
T Parsed(std::string_view text) {
  const VoiceMessage message = ParseVoiceText(text, Defaults());
  if (const auto* fault = std::get_if<MessageFault>(&message)) ADD_FAILURE() << fault->message;
  return std::holds_alternative<T>(message) ? std::get<T>(message) : T{};
}

MessageFault FaultOf(std::string_view text) {
  const VoiceMessage message = ParseVoiceText(text, Defaults());
  EXPECT_TRUE(std::holds_alternative<MessageFault>(message)) << text;
  return std::holds_alternative<MessageFault>(message) ? std::get<MessageFault>(message)
                                                       : MessageFault{};
}

TEST(VoiceProtocolTest, StartWithoutFieldsHasTheDefaults) {
  const auto start = Parsed<StartMessage>(R"({"type":"start"})");
  EXPECT_EQ(start.format, SoundFormat::kOpus);
  EXPECT_FALSE(start.has_seed);
  EXPECT_EQ(start.options.text.temperature, 0.7F);
  EXPECT_EQ(start.options.audio.top_k, 250);
}

TEST(VoiceProtocolTest, StartWithEveryField) {
  const auto start = Parsed<StartMessage>(
      R"({"type":"start","audio":"pcm16","voice":"alto","text_prompt":"You are kind.",)"
      R"("text_temperature":0,"text_top_k":5,"audio_temperature":1.5,"audio_top_k":0,)"
      R"("seed":9007199254740992})");
  EXPECT_EQ(start.format, SoundFormat::kPcm16);
  EXPECT_EQ(start.options.voice, "alto");
  EXPECT_EQ(start.options.text_prompt, "You are kind.");
  EXPECT_EQ(start.options.text.temperature, 0.0F);
  EXPECT_EQ(start.options.text.top_k, 5);
  EXPECT_EQ(start.options.audio.temperature, 1.5F);
  EXPECT_EQ(start.options.audio.top_k, 0);
  EXPECT_TRUE(start.has_seed);
  EXPECT_EQ(start.options.seed, uint64_t{1} << 53);
}

TEST(VoiceProtocolTest, OptionFaultsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"start","audio":"mp3"})", "audio"},
      {R"({"type":"start","audio":1})", "audio"},
      {R"({"type":"start","voice":null})", "voice"},
      {R"({"type":"start","text_prompt":[]})", "text_prompt"},
      {R"({"type":"start","text_temperature":2.1})", "text_temperature"},
      {R"({"type":"start","text_temperature":"1"})", "text_temperature"},
      {R"({"type":"start","text_top_k":-1})", "text_top_k"},
      {R"({"type":"start","text_top_k":1.5})", "text_top_k"},
      {R"({"type":"start","audio_temperature":-0.1})", "audio_temperature"},
      {R"({"type":"start","audio_top_k":1e300})", "audio_top_k"},
      {R"({"type":"start","seed":-1})", "seed"},
      {R"({"type":"start","seed":9007199254740994})", "seed"},
      {R"({"type":"start","seed":0.5})", "seed"},
      {R"({"type":"stats","buffer_ms":"x"})", "buffer_ms"},
      {R"({"type":"stats","underruns":-3})", "underruns"},
  };
  for (const auto& [text, field] : cases) {
    const MessageFault fault = FaultOf(text);
    EXPECT_EQ(fault.code, "bad_option") << text;
    EXPECT_EQ(fault.message.rfind(std::string(field) + ": expected", 0), 0U) << fault.message;
  }
}

TEST(VoiceProtocolTest, WhatIsNoMessageIsBadMessage) {
  for (const char* text : {"", "{", "null", "[]", "7", "\"start\"", "{}", R"({"type":7})",
                           "\xff\xfe", R"({"type":"start")"}) {
    EXPECT_EQ(FaultOf(text).code, "bad_message") << text;
  }
  EXPECT_EQ(FaultOf(std::string(60'000, '[')).code, "bad_message");
}

TEST(VoiceProtocolTest, OtherMessages) {
  const auto stats =
      Parsed<ClientStatsMessage>(R"({"type":"stats","buffer_ms":61.5,"underruns":3})");
  EXPECT_EQ(stats.buffer_ms, 61.5);
  EXPECT_EQ(stats.underruns, 3U);
  Parsed<ByeMessage>(R"({"type":"bye"})");
  Parsed<UnknownMessage>(R"({"type":"dance","voice":7})");
}

TEST(VoiceProtocolTest, FaultsOfHugeFieldsStayShort) {
  const std::string text = R"({"type":"start","voice":[")" + std::string(50'000, 'x') + R"("]})";
  EXPECT_LT(FaultOf(text).message.size(), 200U);
}

TEST(VoiceProtocolTest, BinaryMessages) {
  using Kind = VoiceSound::Kind;
  EXPECT_EQ(ParseVoiceBinary({}).kind, Kind::kFault);
  const std::vector<uint8_t> loss = {1}, opus = {1, 0x48, 7}, pcm = {2, 1, 0}, unknown = {9, 1},
                             odd = {2, 1, 0, 5}, empty_pcm = {2};
  EXPECT_EQ(ParseVoiceBinary(loss).kind, Kind::kLoss);
  EXPECT_EQ(ParseVoiceBinary(opus).kind, Kind::kOpus);
  EXPECT_EQ(ParseVoiceBinary(opus).payload.size(), 2U);
  EXPECT_EQ(ParseVoiceBinary(pcm).kind, Kind::kPcm16);
  EXPECT_EQ(ParseVoiceBinary(unknown).kind, Kind::kUnknown);
  EXPECT_EQ(ParseVoiceBinary(odd).kind, Kind::kFault);
  EXPECT_EQ(ParseVoiceBinary(empty_pcm).kind, Kind::kFault);
  std::vector<uint8_t> longest(1 + 2880 * 2, 0);
  longest[0] = 2;
  EXPECT_EQ(ParseVoiceBinary(longest).kind, Kind::kPcm16);
  longest.resize(longest.size() + 2);
  EXPECT_EQ(ParseVoiceBinary(longest).kind, Kind::kFault);
}

TEST(VoiceProtocolTest, ServerMessagesHaveTheDocumentedFields) {
  engine::EngineInfo info;
  info.model_name = "embedded";
  info.family = "moshi";
  info.voices = {"a", "b"};
  info.has_text = true;
  info.defaults = Defaults();
  const json hello = json::parse(HelloText(info, "antiphond 0.1.0", 7));
  EXPECT_EQ(hello["type"], "hello");
  EXPECT_EQ(hello["version"], 1);
  EXPECT_EQ(hello["server"], "antiphond 0.1.0");
  EXPECT_TRUE(hello["session"].is_string());
  EXPECT_EQ(hello["model"], (json{{"name", "embedded"}, {"family", "moshi"}}));
  EXPECT_EQ(hello["sample_rate_hz"], 24000);
  EXPECT_EQ(hello["frame_ms"], 80);
  EXPECT_EQ(hello["audio"], (json{"opus", "pcm16"}));
  EXPECT_EQ(hello["voices"], (json{"a", "b"}));
  EXPECT_EQ(hello["text_prompt"], false);
  EXPECT_EQ(hello["has_text"], true);
  EXPECT_EQ(hello["defaults"]["text_temperature"], 0.7);  // not 0.699999988
  EXPECT_EQ(hello["defaults"]["text_top_k"], 25);

  const json error = json::parse(ErrorText("busy", "all places are taken", 2000));
  EXPECT_EQ(error["code"], "busy");
  EXPECT_EQ(error["retry_after_ms"], 2000);
  EXPECT_FALSE(json::parse(ErrorText("internal", "x")).contains("retry_after_ms"));
  EXPECT_EQ(json::parse(PieceText(" hi", 160)),
            (json{{"type", "text"}, {"text", " hi"}, {"time_ms", 160}}));
  EXPECT_EQ(json::parse(ProgressText(3, 9))["total_frames"], 9);
  EXPECT_EQ(json::parse(ReadyText())["time_ms"], 0);
  EXPECT_EQ(json::parse(ByeText("client"))["reason"], "client");
  const json stats = json::parse(StatsText({}, 12));
  for (const char* field : {"frames", "late", "degraded", "starved", "buffer_ms", "oldest_ms",
                            "dropped_ms", "lost", "queued_bytes"}) {
    EXPECT_TRUE(stats[field].is_number()) << field;
  }
}

TEST(VoiceProtocolTest, TextThatIsNotUtf8IsMadeSo) {
  EXPECT_TRUE(json::parse(PieceText("\xe4\xb8", 0))["text"].is_string());
}

}  // namespace
}  // namespace antiphon::daemon
