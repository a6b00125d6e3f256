// Messages of /api/chat, the protocol of Kyutai's and NVIDIA's web clients (docs/PROTOCOL.md),
// apart from any session. Pure functions; nothing throws, whatever comes in.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace antiphon::daemon {

enum class MoshiKind : uint8_t {
  kHandshake = 0,
  kAudio = 1,
  kText = 2,
  kControl = 3,
  kMetadata = 4,
  kError = 5,
  kPing = 6,
};

// What the query of the request asks for.
struct MoshiRequest {
  engine::SessionOptions options;
  bool has_seed = false;
  bool metadata = false;
  std::string fault;  // one sentence naming the key; "" where the request is good
};

// The web clients send every key whatever the model, so a prompt or a voice for a model that has
// none is passed over, and top-k of 0 or less means all.
MoshiRequest ParseMoshiQuery(const std::map<std::string, std::string>& query,
                             const engine::EngineInfo& info);

// The Ogg bytes of an audio message; empty for any other kind, which a server ignores.
std::span<const uint8_t> MoshiAudio(std::span<const uint8_t> message);

// Server messages.
std::vector<uint8_t> MoshiMessage(MoshiKind kind, std::span<const uint8_t> payload);
std::vector<uint8_t> MoshiMessage(MoshiKind kind, std::string_view payload);
std::vector<uint8_t> MoshiHandshake();
std::vector<uint8_t> MoshiMetadata(const engine::EngineInfo& info,
                                   const engine::SessionOptions& options);

}  // namespace antiphon::daemon
