#include "daemon/http_exchange.h"

#include <libwebsockets.h>

#include <algorithm>

namespace antiphon::daemon {
namespace {

constexpr size_t kChunkBytes = 16384;
constexpr size_t kHeaderRoomBytes = 4096;

std::string Header(lws* wsi, lws_token_indexes token) {
  const int size = lws_hdr_total_length(wsi, token);
  if (size <= 0) return "";
  std::string value(static_cast<size_t>(size) + 1, '\0');
  const int copied = lws_hdr_copy(wsi, value.data(), size + 1, token);
  value.resize(copied > 0 ? static_cast<size_t>(copied) : 0);
  return value;
}

HttpMethod Method(lws* wsi) {
  if (lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) > 0) return HttpMethod::kHead;
  if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0) return HttpMethod::kGet;
  return HttpMethod::kOther;
}

std::string Path(lws* wsi) {
  char* uri = nullptr;
  int size = 0;
  if (lws_http_get_uri_and_method(wsi, &uri, &size) < 0 || uri == nullptr) return "";
  return std::string(uri, static_cast<size_t>(size));
}

// The first offered sub-protocol that begins so, without that beginning.
std::string OfferedAfter(const std::string& list, std::string_view begin) {
  const size_t at = list.find(begin);
  if (at == std::string::npos) return "";
  const size_t first = at + begin.size();
  return list.substr(first, list.find_first_of(", \t", first) - first);
}

std::string TakeKey(lws* wsi, HttpRequest* request) {
  constexpr std::string_view kBearer = "Bearer ";
  std::string key;
  for (const char* name : {"key", "auth_id", "worker_auth_id"}) {
    const auto found = request->info.query.find(name);
    if (found == request->info.query.end()) continue;
    if (key.empty()) key = found->second;
    request->info.query.erase(found);
  }
  const std::string header = Header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
  if (header.starts_with(kBearer)) return header.substr(kBearer.size());
  const std::string offered = OfferedAfter(request->sub_protocols, "antiphon.key.");
  return offered.empty() ? key : offered;
}

bool AddHeader(lws* wsi, const std::string& name, const std::string& value, unsigned char** at,
               unsigned char* end) {
  const std::string key = name + ":";
  return lws_add_http_header_by_name(wsi, reinterpret_cast<const unsigned char*>(key.c_str()),
                                     reinterpret_cast<const unsigned char*>(value.data()),
                                     static_cast<int>(value.size()), at, end) == 0;
}

bool WriteHead(lws* wsi, const HttpResponse& response) {
  unsigned char room[LWS_PRE + kHeaderRoomBytes];
  unsigned char* const start = room + LWS_PRE;
  unsigned char* at = start;
  unsigned char* const end = room + sizeof(room) - 1;
  if (lws_add_http_header_status(wsi, static_cast<unsigned>(response.status), &at, end) != 0) {
    return false;
  }
  std::map<std::string, std::string> headers = response.headers;
  headers.insert({{"Content-Type", response.content_type},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Cross-Origin-Resource-Policy", "same-origin"}});
  for (const auto& [name, value] : headers) {
    if (!AddHeader(wsi, name, value, &at, end)) return false;
  }
  // RFC 9110 8.6: a 304 has no body, so no length that could be taken for one.
  if (response.status != 304 &&
      lws_add_http_header_content_length(wsi, response.body.size(), &at, end) != 0) {
    return false;
  }
  return lws_finalize_write_http_header(wsi, start, &at, end) == 0;
}

}  // namespace

HttpRequest ReadRequest(lws* wsi, const std::string& remote_address, bool secure) {
  HttpRequest request;
  request.method = Method(wsi);
  request.info.remote_address = remote_address;
  request.info.secure = secure;
  request.info.path = Path(wsi);
  request.info.origin = Header(wsi, WSI_TOKEN_ORIGIN);
  request.sub_protocols = Header(wsi, WSI_TOKEN_PROTOCOL);
  request.host = Header(wsi, WSI_TOKEN_HOST);
  request.if_none_match = Header(wsi, WSI_TOKEN_HTTP_IF_NONE_MATCH);
  std::string argument(static_cast<size_t>(lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS)) + 1,
                       '\0');
  for (int n = 0;; ++n) {
    const int size = lws_hdr_copy_fragment(wsi, argument.data(), static_cast<int>(argument.size()),
                                           WSI_TOKEN_HTTP_URI_ARGS, n);
    if (size < 0) break;
    std::string one = argument.substr(0, static_cast<size_t>(size));
    std::replace(one.begin(), one.end(), '+', ' ');
    const size_t equals = one.find('=');
    if (one.empty()) continue;
    request.info.query[one.substr(0, equals)] =
        equals == std::string::npos ? "" : one.substr(equals + 1);
  }
  request.key_text = TakeKey(wsi, &request);
  return request;
}

bool Offers(const HttpRequest& request, const std::string& sub_protocol) {
  size_t at = 0;
  const std::string& list = request.sub_protocols;
  while (at < list.size()) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const size_t first = list.find_first_not_of(" \t", at);
    if (first < comma) {
      const size_t last = list.find_last_not_of(" \t", comma - 1);
      if (list.compare(first, last + 1 - first, sub_protocol) == 0) return true;
    }
    at = comma + 1;
  }
  return false;
}

HttpResponse Cached(const HttpRequest& request, HttpResponse response) {
  const auto etag = response.headers.find("ETag");
  if (response.status == 200 && etag != response.headers.end() &&
      request.if_none_match.find(etag->second) != std::string::npos) {
    response.status = 304;
    response.body.clear();
  }
  return response;
}

HttpResponse Refusal(const AccessDecision& decision, FrontCounters* counters) {
  HttpResponse response;
  response.body = std::string(decision.reason()) + "\n";
  if (decision.refusal == AccessDecision::Refusal::kKey) {
    ++counters->key;
    response.status = 401;
    response.headers["WWW-Authenticate"] = "Bearer";
  } else {
    ++(decision.refusal == AccessDecision::Refusal::kRight ? counters->right : counters->origin);
    response.status = 403;
  }
  return response;
}

int RefuseUpgrade(lws* wsi, const HttpResponse& refusal) {
  if (!WriteHead(wsi, refusal)) return -1;
  std::string body(LWS_PRE, '\0');
  body += refusal.body;
  const int written = lws_write(wsi, reinterpret_cast<unsigned char*>(body.data()) + LWS_PRE,
                                refusal.body.size(), LWS_WRITE_HTTP_FINAL);
  return written < 0 ? -1 : 1;
}

HttpExchange::HttpExchange(HttpResponse response, HttpMethod method)
    : response_(std::move(response)), method_(method) {}

int HttpExchange::Start(lws* wsi) {
  if (!WriteHead(wsi, response_)) return -1;
  if (method_ == HttpMethod::kHead || response_.body.empty()) {
    done_ = true;
    return lws_http_transaction_completed(wsi) != 0 ? -1 : 0;
  }
  lws_callback_on_writable(wsi);
  return 0;
}

int HttpExchange::OnWritable(lws* wsi) {
  if (sent_bytes_ >= response_.body.size()) return 0;
  const size_t size = std::min(kChunkBytes, response_.body.size() - sent_bytes_);
  std::string chunk(LWS_PRE, '\0');
  chunk.append(response_.body, sent_bytes_, size);
  sent_bytes_ += size;
  const bool last = sent_bytes_ == response_.body.size();
  if (lws_write(wsi, reinterpret_cast<unsigned char*>(chunk.data()) + LWS_PRE, size,
                last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < 0) {
    return -1;
  }
  if (!last) {
    lws_callback_on_writable(wsi);
    return 0;
  }
  done_ = true;
  // What a refused method wanted to send us is not read: the connection ends with the answer.
  if (method_ == HttpMethod::kOther) return -1;
  return lws_http_transaction_completed(wsi) != 0 ? -1 : 0;
}

}  // namespace antiphon::daemon
