// How work on sound ends: a Status where data comes from a peer while a call is on (nothing throws
// there), an AudioError where a file or an option is wrong.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace antiphon::audio {

enum class Status : uint8_t {
  kOk,
  kBadPacket,  // the peer's bytes are not what they should be
};

// One sentence that names the file or option, what was expected and what was found.
class AudioError : public std::runtime_error {
 public:
  explicit AudioError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace antiphon::audio
