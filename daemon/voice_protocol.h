// Messages of /v1/voice (docs/PROTOCOL.md), apart from any session: bytes to values and back. Pure
// functions; nothing throws, whatever comes in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/session.h"
#include "engine/engine.h"

namespace antiphon::daemon {

inline constexpr std::string_view kVoiceSubProtocol = "antiphon.v1";
inline constexpr size_t kVoiceMaxMessageBytes = size_t{64} << 10;

// A message that is not of the protocol: `code` is "bad_message" or "bad_option", `message` one
// sentence that names the field.
struct MessageFault {
  std::string code;
  std::string message;
};

struct StartMessage {
  SoundFormat format = SoundFormat::kOpus;
  engine::SessionOptions options;
  bool has_seed = false;
};
struct ClientStatsMessage {
  double buffer_ms = 0.0;
  uint64_t underruns = 0;
};
struct ByeMessage {};
struct UnknownMessage {};  // a type we do not know: ignored

using VoiceMessage =
    std::variant<MessageFault, StartMessage, ClientStatsMessage, ByeMessage, UnknownMessage>;

// `defaults` fill what a start message leaves out.
VoiceMessage ParseVoiceText(std::string_view text, const engine::SessionOptions& defaults);

enum class VoiceSoundKind : uint8_t { kOpus = 1, kPcm16 = 2 };

struct VoiceSound {
  enum class Kind { kOpus, kLoss, kPcm16, kUnknown, kFault } kind = Kind::kFault;
  std::span<const uint8_t> payload;  // into the message
  const char* fault = "";            // one sentence, where kFault
};
VoiceSound ParseVoiceBinary(std::span<const uint8_t> message);

// Server messages. Text that is not UTF-8 is made so.
std::string HelloText(const engine::EngineInfo& info, std::string_view server, uint64_t session);
std::string ProgressText(int done_frames, int total_frames);
std::string ReadyText();
std::string PieceText(std::string_view piece, uint64_t time_ms);
std::string StatsText(const SessionStats& stats, size_t queued_bytes);
std::string ErrorText(std::string_view code, std::string_view message,
                      std::optional<int> retry_after_ms = std::nullopt);
std::string ByeText(std::string_view reason);

// What a model offers, as JSON members: `voices`, `text_prompt`, `has_text`, `defaults`, and with
// `name` and `family` the `model` of /v1/info.
std::string ModelInfoJson(const engine::EngineInfo& info);

}  // namespace antiphon::daemon
