// Named keys that open the daemon to other machines. A key is 32 random bytes made by `antiphon
// key`; the configuration has its SHA-256 only, which for so many random bits needs no salt or
// stretching.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::daemon {

// What a route asks for. kAny: any key at all; kNone: not even that.
enum class Right : uint8_t { kNone = 0, kTalk = 1, kOperate = 2, kMetrics = 4, kAny = 7 };

// Who is served first when places are short. The local microphone is kFirst.
enum class Priority : uint8_t { kFirst, kNormal, kLast };

struct Key {
  std::string name;    // for the log; letters, digits, '-', '_', at most 32
  uint8_t rights = 0;  // of Right
  Priority priority = Priority::kNormal;
  std::array<uint8_t, 32> hash{};  // SHA-256 of the key's text
};

// "name:talk+metrics:sha256-in-hex"; the words "first" and "last" set the priority. Throws
// InputError that shows the name at most.
Key ParseKey(std::string_view text);

// A new key's text, 43 characters of base64url. Throws InputError where there is no randomness.
std::string MakeKeyText();
// The configuration's line for it: "name:talk:hash". REQUIRES: ParseKey would take name and words.
std::string FormatKey(std::string_view name, std::string_view words, std::string_view key_text);

class Credentials {
 public:
  explicit Credentials(std::vector<Key> keys) : keys_(std::move(keys)) {}
  bool empty() const { return keys_.empty(); }
  // The key with this text, or null. Takes as long for every text of the same length: hashes are
  // compared, whole, with every key.
  const Key* Find(std::string_view key_text) const;

 private:
  const std::vector<Key> keys_;
};

}  // namespace antiphon::daemon
