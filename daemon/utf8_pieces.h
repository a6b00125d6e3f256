// Text pieces of tokens, joined to whole characters: a tokenizer with byte pieces may give a
// character's bytes in several tokens.
#pragma once

#include <string>
#include <string_view>

namespace antiphon::daemon {

class Utf8Pieces {
 public:
  // The whole characters that are complete once `piece` has come; the rest waits for the next
  // piece. Bytes that begin no character are left out.
  std::string Add(std::string_view piece);

 private:
  std::string held_;  // at most 3 bytes, the beginning of a character
};

}  // namespace antiphon::daemon
