#include "daemon/moshi_protocol.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace antiphon::daemon {
namespace {

// Reads the query's keys and keeps the first fault.
class QueryReader {
 public:
  QueryReader(const std::map<std::string, std::string>& query, std::string* fault)
      : query_(query), fault_(fault) {}

  const std::string* Find(const char* key) const {
    const auto found = query_.find(key);
    return found == query_.end() ? nullptr : &found->second;
  }
  void Temperature(const char* key, float* value) {
    const std::string* text = Find(key);
    if (text == nullptr) return;
    double number = NAN;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error == std::errc() && end == text->data() + text->size() && number >= 0.0 &&
        number <= 2.0) {
      *value = static_cast<float>(number);
    } else {
      Fail(key, "a number from 0 to 2");
    }
  }
  bool Integer(const char* key, int64_t* value) {
    const std::string* text = Find(key);
    if (text == nullptr) return false;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
    if (error == std::errc() && end == text->data() + text->size()) return true;
    Fail(key, "a whole number");
    return false;
  }
  void TopK(const char* key, int* value) {
    int64_t number = 0;
    if (Integer(key, &number)) {
      *value = static_cast<int>(std::clamp<int64_t>(number, 0, 1 << 20));
    }
  }

 private:
  void Fail(const char* key, const char* expected) {
    if (!fault_->empty()) return;
    *fault_ = std::string(key) + ": expected " + expected;
  }

  const std::map<std::string, std::string>& query_;
  std::string* fault_;
};

// "NATF0.pt" is the voice NATF0.
std::string VoiceName(std::string name) {
  for (const std::string_view suffix : {".pt", ".wav"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

}  // namespace

MoshiRequest ParseMoshiQuery(const std::map<std::string, std::string>& query,
                             const engine::EngineInfo& info) {
  MoshiRequest request;
  request.options = info.defaults;
  QueryReader reader(query, &request.fault);
  if (const std::string* voice = reader.Find("voice_prompt"); voice && !info.voices.empty()) {
    if (!voice->empty()) request.options.voice = VoiceName(*voice);
  }
  if (const std::string* prompt = reader.Find("text_prompt"); prompt && info.takes_text_prompt) {
    request.options.text_prompt = *prompt;
  }
  reader.Temperature("text_temperature", &request.options.text.temperature);
  reader.Temperature("audio_temperature", &request.options.audio.temperature);
  reader.TopK("text_topk", &request.options.text.top_k);
  reader.TopK("audio_topk", &request.options.audio.top_k);
  int64_t seed = 0, text_seed = 0, audio_seed = 0;
  if (reader.Integer("seed", &seed)) {
    request.options.seed = static_cast<uint64_t>(seed);
    request.has_seed = true;
  } else {
    // One generator per session here; two seeds become one.
    const bool has_text = reader.Integer("text_seed", &text_seed);
    const bool has_audio = reader.Integer("audio_seed", &audio_seed);
    request.has_seed = has_text || has_audio;
    request.options.seed =
        static_cast<uint64_t>(text_seed) ^ (static_cast<uint64_t>(audio_seed) << 32);
  }
  const std::string* metadata = reader.Find("metadata");
  request.metadata = metadata != nullptr && *metadata == "1";
  return request;
}

std::span<const uint8_t> MoshiAudio(std::span<const uint8_t> message) {
  if (message.empty() || message[0] != static_cast<uint8_t>(MoshiKind::kAudio)) return {};
  return message.subspan(1);
}

std::vector<uint8_t> MoshiMessage(MoshiKind kind, std::span<const uint8_t> payload) {
  std::vector<uint8_t> message;
  message.reserve(payload.size() + 1);
  message.push_back(static_cast<uint8_t>(kind));
  message.insert(message.end(), payload.begin(), payload.end());
  return message;
}

std::vector<uint8_t> MoshiMessage(MoshiKind kind, std::string_view payload) {
  return MoshiMessage(kind,
                      std::span(reinterpret_cast<const uint8_t*>(payload.data()), payload.size()));
}

std::vector<uint8_t> MoshiHandshake() {
  const std::vector<uint8_t> versions(8, 0);  // u32 protocol 0, u32 model 0
  return MoshiMessage(MoshiKind::kHandshake, versions);
}

// The web client takes it only with every one of these fields there.
std::vector<uint8_t> MoshiMetadata(const engine::EngineInfo& info,
                                   const engine::SessionOptions& options) {
  using nlohmann::json;
  json build;
  for (const char* key :
       {"build_timestamp", "build_date", "git_branch", "git_timestamp", "git_date", "git_hash",
        "git_describe", "rustc_host_triple", "rustc_version", "cargo_target_triple"}) {
    build[key] = "";
  }
  const json metadata = {{"text_temperature", options.text.temperature},
                         {"text_topk", options.text.top_k},
                         {"audio_temperature", options.audio.temperature},
                         {"audio_topk", options.audio.top_k},
                         {"pad_mult", 0},
                         {"repetition_penalty_context", 0},
                         {"repetition_penalty", 1.0},
                         {"lm_model_file", info.model_name},
                         {"instance_name", "antiphon"},
                         {"build_info", build}};
  return MoshiMessage(MoshiKind::kMetadata,
                      metadata.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace antiphon::daemon
