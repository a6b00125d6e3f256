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
  std::string if_none_match;  // If-None-Match, "" if absent
};

// Reads the request that libwebsockets has parsed. '+' in the query is a space, as forms and
// URLSearchParams write it.
HttpRequest ReadRequest(lws* wsi, const std::string& remote_address, bool secure);

// True if the client's list of sub-protocols has this one.
bool Offers(const HttpRequest& request, const std::string& sub_protocol);

// 304 without a body where the client has the response's ETag already.
HttpResponse Cached(const HttpRequest& request, HttpResponse response);

// Answers an upgrade request that is not granted; the connection may be used again.
int RefuseUpgrade(lws* wsi, const HttpResponse& refusal);

// An answer on its way. Results are libwebsockets': non-zero ends the connection.
class HttpExchange {
 public:
  HttpExchange(HttpResponse response, HttpMethod method);
  int Start(lws* wsi);
  int OnWritable(lws* wsi);

 private:
  HttpResponse response_;
  const HttpMethod method_;
  size_t sent_bytes_ = 0;
};

}  // namespace antiphon::daemon
