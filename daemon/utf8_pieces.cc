#include "daemon/utf8_pieces.h"

namespace antiphon::daemon {
namespace {

// Bytes of the character that begins with `first` (RFC 3629), 0 where none does.
size_t CharacterBytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string Utf8Pieces::Add(std::string_view piece) {
  const std::string bytes = held_ + std::string(piece);
  held_.clear();
  std::string whole;
  for (size_t at = 0; at < bytes.size();) {
    const size_t wanted = CharacterBytes(static_cast<unsigned char>(bytes[at]));
    size_t got = wanted == 0 ? 0 : 1;
    while (got < wanted && at + got < bytes.size() && IsContinuation(bytes[at + got])) ++got;
    if (wanted > 0 && got == wanted) {
      whole.append(bytes, at, wanted);
    } else if (got > 0 && at + got == bytes.size()) {
      held_ = bytes.substr(at);
    }
    at += got > 0 ? got : 1;
  }
  return whole;
}

}  // namespace antiphon::daemon
