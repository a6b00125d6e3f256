// Who may do what: keys for other machines, and the Origin and Host of browsers.
#pragma once

#include <string>
#include <vector>

#include "daemon/credentials.h"

namespace antiphon::daemon {

struct AccessOptions {
  std::vector<Key> keys;
  bool loopback_needs_key = false;   // set where a proxy on this machine brings strangers
  std::vector<std::string> origins;  // "https://voice.example.org": pages that may call us
};

// What a request shows of itself.
struct AccessRequest {
  std::string remote_address;
  std::string origin, host;  // headers, "" if absent
  std::string key_text;      // "" if none
};

struct AccessDecision {
  enum class Refusal : uint8_t { kNone, kOrigin, kKey, kRight } refusal = Refusal::kNone;
  std::string key_name;  // "" on loopback without a key
  Priority priority = Priority::kNormal;
  const char* reason() const;  // one sentence for the caller
};

// "127.0.0.1", "::1" and their kin.
bool IsLoopback(const std::string& address);

class AccessControl {
 public:
  explicit AccessControl(AccessOptions options);

  // Right::kNone is always granted. Otherwise: a browser's page must come from us or from a listed
  // origin (`socket`: only there do browsers send one unasked); a caller from another machine needs
  // a key with the right; a caller from this one without a key must name us by an address or
  // "localhost", so that a hostile page whose name was made to point here is refused.
  AccessDecision Check(const AccessRequest& request, Right right, bool socket) const;

 private:
  bool OriginAllowed(const AccessRequest& request) const;
  bool HostAllowed(const std::string& host) const;

  const AccessOptions options_;
  const Credentials credentials_;
};

}  // namespace antiphon::daemon
