#include "daemon/access_control.h"

#include <strings.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

namespace antiphon::daemon {
namespace {

bool Same(const std::string& a, const std::string& b) {
  return strcasecmp(a.c_str(), b.c_str()) == 0;
}

// "https://host:port" without its scheme, "" where there is none.
std::string AfterScheme(const std::string& origin) {
  const size_t at = origin.find("://");
  return at == std::string::npos ? "" : origin.substr(at + 3);
}

// "host:port" or "[v6]:port" without port and brackets.
std::string HostName(const std::string& host) {
  if (host.starts_with("[")) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

const char* AccessDecision::reason() const {
  switch (refusal) {
    case Refusal::kNone:
      return "";
    case Refusal::kOrigin:
      return "this page may not call here: its address is not in security.origins";
    case Refusal::kKey:
      return "a key is needed here: open the page as https://ADDRESS/#key=KEY, or send it as a "
             "bearer token";
    case Refusal::kRight:
      return "this key has no right to do that";
  }
  return "";
}

bool IsLoopback(const std::string& address) {
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(address, error);
  if (error) return false;
  if (ip.is_v6() && ip.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, ip.to_v6()).is_loopback();
  }
  return ip.is_loopback();
}

AccessControl::AccessControl(AccessOptions options)
    : options_(std::move(options)), credentials_(options_.keys) {}

bool AccessControl::OriginAllowed(const AccessRequest& request) const {
  if (request.origin.empty()) return true;  // no browser
  if (std::any_of(options_.origins.begin(), options_.origins.end(),
                  [&](const std::string& origin) { return Same(origin, request.origin); })) {
    return true;
  }
  return !request.host.empty() && Same(AfterScheme(request.origin), request.host);
}

bool AccessControl::HostAllowed(const std::string& host) const {
  const std::string name = HostName(host);
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  if (!error || Same(name, "localhost") || name.empty()) return true;
  return std::any_of(options_.origins.begin(), options_.origins.end(),
                     [&](const std::string& origin) { return Same(AfterScheme(origin), host); });
}

AccessDecision AccessControl::Check(const AccessRequest& request, Right right, bool socket) const {
  AccessDecision decision;
  if (right == Right::kNone) return decision;
  if (socket && !OriginAllowed(request)) {
    decision.refusal = AccessDecision::Refusal::kOrigin;
    return decision;
  }
  const Key* const key = request.key_text.empty() ? nullptr : credentials_.Find(request.key_text);
  if (key != nullptr) {
    decision.key_name = key->name;
    decision.priority = key->priority;
    if ((key->rights & static_cast<uint8_t>(right)) == 0) {
      decision.refusal = AccessDecision::Refusal::kRight;
    }
    return decision;
  }
  if (options_.loopback_needs_key || !IsLoopback(request.remote_address)) {
    decision.refusal = AccessDecision::Refusal::kKey;
  } else if (!HostAllowed(request.host)) {
    decision.refusal = AccessDecision::Refusal::kOrigin;
  }
  return decision;
}

}  // namespace antiphon::daemon
