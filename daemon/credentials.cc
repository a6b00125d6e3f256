#include "daemon/credentials.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

constexpr size_t kMaxNameBytes = 32;
using Hash = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

Hash HashOf(std::string_view text) {
  Hash hash;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), hash.data());
  return hash;
}

bool ParseHex(std::string_view hex, Hash* hash) {
  if (hex.size() != 2 * hash->size()) return false;
  for (size_t n = 0; n < hash->size(); ++n) {
    const char* const at = hex.data() + 2 * n;
    const auto [end, error] = std::from_chars(at, at + 2, (*hash)[n], 16);
    if (error != std::errc() || end != at + 2) return false;
  }
  return true;
}

bool IsName(std::string_view name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !name.empty() && name.size() <= kMaxNameBytes &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

bool ParseWord(std::string_view word, Key* key) {
  const auto add = [key](Right right) {
    key->rights = static_cast<uint8_t>(key->rights | static_cast<uint8_t>(right));
  };
  if (word == "talk") {
    add(Right::kTalk);
  } else if (word == "operate") {
    add(Right::kOperate);
  } else if (word == "metrics") {
    add(Right::kMetrics);
  } else if (word == "first") {
    key->priority = Priority::kFirst;
  } else if (word == "last") {
    key->priority = Priority::kLast;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Key ParseKey(std::string_view text) {
  Key key;
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos || !IsName(text.substr(0, first))) {
    throw InputError("expected \"name:talk+metrics:sha256\" as `antiphon key` prints it");
  }
  key.name = text.substr(0, first);
  std::string_view words = text.substr(first + 1, second - first - 1);
  for (bool more = true; more;) {
    const size_t plus = words.find('+');
    more = plus != std::string_view::npos;
    if (!ParseWord(words.substr(0, plus), &key)) {
      throw InputError("key \"" + key.name +
                       "\": expected rights out of talk, operate, metrics, and first or last, "
                       "with + between");
    }
    words = more ? words.substr(plus + 1) : std::string_view();
  }
  if (!ParseHex(text.substr(second + 1), &key.hash)) {
    throw InputError("key \"" + key.name + "\": expected 64 hexadecimal digits of a SHA-256");
  }
  return key;
}

std::string MakeKeyText() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<uint8_t, 43> random{};  // six bits of each are used
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    throw InputError("key: the system has no randomness");
  }
  std::string text;
  for (const uint8_t byte : random) text += kDigits[byte & 63U];
  return text;
}

std::string FormatKey(std::string_view name, std::string_view words, std::string_view key_text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string line = std::string(name) + ":" + std::string(words) + ":";
  for (const uint8_t byte : HashOf(key_text)) {
    line += kHex[byte >> 4U];
    line += kHex[byte & 15U];
  }
  return line;
}

const Key* Credentials::Find(std::string_view key_text) const {
  const Hash hash = HashOf(key_text);
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (CRYPTO_memcmp(hash.data(), key.hash.data(), hash.size()) == 0) found = &key;
  }
  return found;
}

}  // namespace antiphon::daemon
