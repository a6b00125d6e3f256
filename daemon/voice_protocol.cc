#include "daemon/voice_protocol.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace antiphon::daemon {
namespace {

using nlohmann::json;

constexpr double kMaxSeed = 9007199254740992.0;  // 2^53, what a JSON number holds exactly
constexpr int kMaxTopK = 1 << 20;
constexpr size_t kMaxPcmSamples = 2880;

std::string Dump(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Reads fields of one message and keeps the first fault.
class FieldReader {
 public:
  explicit FieldReader(const json& message) : message_(message) {}

  // True where the field is there and a number from `low` to `high`.
  bool Number(const char* name, double low, double high, bool whole, double* value) {
    const auto field = message_.find(name);
    if (field == message_.end() || fault_) return false;
    const double found = field->is_number() ? field->get<double>() : NAN;
    if (!(found >= low && found <= high) || (whole && found != std::floor(found))) {
      Fail(name,
           std::string(whole ? "a whole number" : "a number") + " from " + Show(low) + " to " +
               Show(high),
           *field);
      return false;
    }
    *value = found;
    return true;
  }
  void Float(const char* name, double high, float* value) {
    double number = 0.0;
    if (Number(name, 0.0, high, false, &number)) *value = static_cast<float>(number);
  }
  void Int(const char* name, int high, int* value) {
    double number = 0.0;
    if (Number(name, 0.0, high, true, &number)) *value = static_cast<int>(number);
  }
  void Text(const char* name, std::string* value) {
    const auto field = message_.find(name);
    if (field == message_.end() || fault_) return;
    if (field->is_string()) {
      *value = field->get<std::string>();
    } else {
      Fail(name, "a string", *field);
    }
  }
  void Fail(const char* name, const std::string& expected, const json& found) {
    if (fault_) return;
    std::string shown = Dump(found);
    if (shown.size() > 60) shown = std::string(found.type_name());
    fault_ = MessageFault{"bad_option",
                          std::string(name) + ": expected " + expected + ", found " + shown};
  }
  const std::optional<MessageFault>& fault() const { return fault_; }

 private:
  static std::string Show(double value) { return json(static_cast<int64_t>(value)).dump(); }

  const json& message_;
  std::optional<MessageFault> fault_;
};

VoiceMessage ParseStart(const json& message, const engine::SessionOptions& defaults) {
  StartMessage start;
  start.options = defaults;
  FieldReader reader(message);
  std::string audio = "opus";
  reader.Text("audio", &audio);
  if (audio == "pcm16") {
    start.format = SoundFormat::kPcm16;
  } else if (audio != "opus") {
    reader.Fail("audio", "\"opus\" or \"pcm16\"", json(audio));
  }
  reader.Text("voice", &start.options.voice);
  reader.Text("text_prompt", &start.options.text_prompt);
  reader.Float("text_temperature", 2.0, &start.options.text.temperature);
  reader.Int("text_top_k", kMaxTopK, &start.options.text.top_k);
  reader.Float("audio_temperature", 2.0, &start.options.audio.temperature);
  reader.Int("audio_top_k", kMaxTopK, &start.options.audio.top_k);
  double seed = 0.0;
  if (reader.Number("seed", 0.0, kMaxSeed, true, &seed)) {
    start.options.seed = static_cast<uint64_t>(seed);
    start.has_seed = true;
  }
  if (reader.fault()) return *reader.fault();
  return start;
}

VoiceMessage ParseClientStats(const json& message) {
  ClientStatsMessage stats;
  FieldReader reader(message);
  double underruns = 0.0;
  reader.Number("buffer_ms", 0.0, 1e9, false, &stats.buffer_ms);
  if (reader.Number("underruns", 0.0, kMaxSeed, true, &underruns)) {
    stats.underruns = static_cast<uint64_t>(underruns);
  }
  if (reader.fault()) return *reader.fault();
  return stats;
}

double Rounded(double value, double steps) { return std::round(value * steps) / steps; }

// What people wrote, not what a float makes of it (0.6000000238).
double Plain(float temperature) { return Rounded(temperature, 1e5); }

json Offers(const engine::EngineInfo& info) {
  return {{"voices", info.voices},
          {"text_prompt", info.takes_text_prompt},
          {"has_text", info.has_text},
          {"defaults",
           {{"text_temperature", Plain(info.defaults.text.temperature)},
            {"text_top_k", info.defaults.text.top_k},
            {"audio_temperature", Plain(info.defaults.audio.temperature)},
            {"audio_top_k", info.defaults.audio.top_k}}}};
}

}  // namespace

VoiceMessage ParseVoiceText(std::string_view text, const engine::SessionOptions& defaults) {
  const json message = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded() || !message.is_object()) {
    return MessageFault{"bad_message", "message: expected a JSON object"};
  }
  const auto type = message.find("type");
  if (type == message.end() || !type->is_string()) {
    return MessageFault{"bad_message", "type: expected a string that names the message"};
  }
  const auto& name = type->get_ref<const std::string&>();
  if (name == "start") return ParseStart(message, defaults);
  if (name == "stats") return ParseClientStats(message);
  if (name == "bye") return ByeMessage{};
  return UnknownMessage{};
}

VoiceSound ParseVoiceBinary(std::span<const uint8_t> message) {
  VoiceSound sound;
  if (message.empty()) {
    sound.fault = "binary message: expected a kind byte, found nothing";
    return sound;
  }
  sound.payload = message.subspan(1);
  switch (message[0]) {
    case static_cast<uint8_t>(VoiceSoundKind::kOpus):
      sound.kind = sound.payload.empty() ? VoiceSound::Kind::kLoss : VoiceSound::Kind::kOpus;
      return sound;
    case static_cast<uint8_t>(VoiceSoundKind::kPcm16):
      if (sound.payload.empty() || sound.payload.size() % 2 != 0 ||
          sound.payload.size() > kMaxPcmSamples * 2) {
        sound.fault = "pcm16: expected 1 to 2880 samples of two bytes";
        return sound;
      }
      sound.kind = VoiceSound::Kind::kPcm16;
      return sound;
    default:
      sound.kind = VoiceSound::Kind::kUnknown;
      return sound;
  }
}

std::string HelloText(const engine::EngineInfo& info, std::string_view server, uint64_t session) {
  json hello = Offers(info);
  hello["type"] = "hello";
  hello["version"] = 1;
  hello["server"] = server;
  hello["session"] = std::to_string(session);
  hello["model"] = {{"name", info.model_name}, {"family", info.family}};
  hello["sample_rate_hz"] = info.sample_rate_hz;
  hello["frame_ms"] = kFrameMs;
  hello["audio"] = {"opus", "pcm16"};
  return Dump(hello);
}

std::string ProgressText(int done_frames, int total_frames) {
  return Dump({{"type", "progress"}, {"done_frames", done_frames}, {"total_frames", total_frames}});
}

std::string ReadyText() { return Dump({{"type", "ready"}, {"time_ms", 0}}); }

std::string PieceText(std::string_view piece, uint64_t time_ms) {
  return Dump({{"type", "text"}, {"text", piece}, {"time_ms", time_ms}});
}

std::string StatsText(const SessionStats& stats, size_t queued_bytes) {
  return Dump({{"type", "stats"},
               {"frames", stats.frames},
               {"late", stats.late},
               {"degraded", stats.degraded},
               {"starved", stats.starved},
               {"buffer_ms", Rounded(stats.buffer_ms, 10.0)},
               {"oldest_ms", Rounded(stats.oldest_ms, 10.0)},
               {"dropped_ms", Rounded(stats.dropped_ms, 10.0)},
               {"lost", stats.lost},
               {"queued_bytes", queued_bytes}});
}

std::string ErrorText(std::string_view code, std::string_view message,
                      std::optional<int> retry_after_ms) {
  json error = {{"type", "error"}, {"code", code}, {"message", message}};
  if (retry_after_ms) error["retry_after_ms"] = *retry_after_ms;
  return Dump(error);
}

std::string ByeText(std::string_view reason) { return Dump({{"type", "bye"}, {"reason", reason}}); }

std::string ModelInfoJson(const engine::EngineInfo& info) {
  json model = Offers(info);
  model["name"] = info.model_name;
  model["family"] = info.family;
  return Dump(model);
}

}  // namespace antiphon::daemon
