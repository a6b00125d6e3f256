// /v1/voice messages: first byte picks text or binary, the rest is the message. What parses must
// keep its promises, and what comes back must be JSON whatever went in.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "audio/opus_codec.h"
#include "daemon/voice_protocol.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void Text(std::string_view text) {
  using namespace antiphon::daemon;
  const VoiceMessage message = ParseVoiceText(text, {});
  if (const auto* fault = std::get_if<MessageFault>(&message)) {
    Require(fault->code == "bad_message" || fault->code == "bad_option");
    Require(nlohmann::json::parse(ErrorText(fault->code, fault->message)).is_object());
    Require(fault->message.size() < 400);
  } else if (const auto* start = std::get_if<StartMessage>(&message)) {
    Require(start->options.text.temperature >= 0.0F && start->options.text.temperature <= 2.0F);
    Require(start->options.audio.top_k >= 0);
    Require(start->options.seed <= uint64_t{1} << 53);
  }
  Require(nlohmann::json::parse(PieceText(text, 0)).is_object());
}

void Binary(std::span<const uint8_t> message) {
  using namespace antiphon;
  const daemon::VoiceSound sound = daemon::ParseVoiceBinary(message);
  if (sound.kind != daemon::VoiceSound::Kind::kOpus) return;
  const int samples = audio::OpusPacketSamples(sound.payload);
  Require(samples <= audio::kOpusMaxPacketSamples);
  if (samples <= 0) return;
  static audio::OpusDecoder decoder;
  std::vector<float> pcm;
  decoder.Decode(sound.payload, &pcm);
  Require(pcm.size() <= static_cast<size_t>(audio::kOpusMaxPacketSamples));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    Text({reinterpret_cast<const char*>(data + 1), size - 1});
  } else {
    Binary({data + 1, size - 1});
  }
  return 0;
}
