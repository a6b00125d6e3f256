// One HTTP/1.1 request and its answer, on libwebsockets. I/O thread only.
#pragma once

#include <string>

#include "daemon/web_server.h"

struct lws;

namespace antiphon::daemon {

enum class HttpMethod { kGet, kHead, kOther };

struct HttpRequest {
  HttpMethod method = HttpMethod::kOther;
  ConnectionInfo info;
  std::string sub_protocols;  // Sec-WebSocket-Protocol, "" if absent
  std::string host;           // Host, "" if absent
  // The caller's key: a bearer token, a sub-protocol "antiphon.key.KEY", or one of the query's keys
  // that clients have for it (key, auth_id, worker_auth_id), which are taken out of info.query.
  std::string key_text;
  std::string if_none_match;  // If-None-Match, "" if absent

  AccessRequest access() const { return {info.remote_address, info.origin, host, key_text}; }
};

// Reads the request that libwebsockets has parsed. '+' in the query is a space, as forms and
// URLSearchParams write it.
HttpRequest ReadRequest(lws* wsi, const std::string& remote_address, bool secure);

// True if the client's list of sub-protocols has this one.
bool Offers(const HttpRequest& request, const std::string& sub_protocol);

// 304 without a body where the client has the response's ETag already.
HttpResponse Cached(const HttpRequest& request, HttpResponse response);

// What a caller who may not is told: 401 without a valid key, 403 otherwise. Counts him.
HttpResponse Refusal(const AccessDecision& decision, FrontCounters* counters);

// Answers an upgrade request that is not granted; the connection may be used again.
int RefuseUpgrade(lws* wsi, const HttpResponse& refusal);

// An answer on its way. Results are libwebsockets': non-zero ends the connection.
class HttpExchange {
 public:
  HttpExchange(HttpResponse response, HttpMethod method);
  int Start(lws* wsi);
  int OnWritable(lws* wsi);
  bool done() const { return done_; }

 private:
  HttpResponse response_;
  const HttpMethod method_;
  size_t sent_bytes_ = 0;
  bool done_ = false;
};

}  // namespace antiphon::daemon
