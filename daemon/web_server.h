// HTTP(S) and WebSocket front on libwebsockets, which runs inside the Asio loop through libuv.
//
// Everything here belongs to the I/O thread. Peers' faults (bad frames, resets, floods) end that
// peer's connection and are counted; they never reach anyone else.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/access_control.h"
#include "engine/error.h"

namespace antiphon::daemon {

// What is known of a client when it connects.
struct ConnectionInfo {
  std::string remote_address;                // "192.0.2.7"
  std::string path;                          // "/api/chat"
  std::map<std::string, std::string> query;  // percent-decoded
  std::string origin;                        // header, "" if absent
  bool secure = false;
  std::string key_name;  // of the key it brought, "" where none was needed
  Priority priority = Priority::kNormal;
  // Not "": the caller may not talk, for this reason. Only pages on routes with a sub-protocol come
  // so far, because browsers do not show them an HTTP answer; others get 401 or 403.
  std::string refusal;
};

// One WebSocket, as its handler sees it. Valid until the handler's OnClose returns.
class WebSocket {
 public:
  virtual ~WebSocket() = default;
  virtual const ConnectionInfo& info() const = 0;
  // Queues one message. Nothing is sent or queued after Close.
  virtual void SendBinary(std::span<const uint8_t> message) = 0;
  virtual void SendText(std::string_view message) = 0;
  // Bytes queued and not yet taken by the kernel: the sender's measure of a slow client.
  virtual size_t queued_bytes() const = 0;
  // Sends what is queued, then a close frame with this code (RFC 6455 7.4) and reason (<= 123
  // bytes). The peer has 1 s to answer, then the connection is cut.
  virtual void Close(uint16_t code, std::string_view reason) = 0;
};

// One per connection, made by the route's factory. OnClose comes exactly once, whatever happens
// (close frame, reset, silence time-out, server stop), and is the last call.
class WebSocketHandler {
 public:
  virtual ~WebSocketHandler() = default;
  virtual void OnOpen(WebSocket& socket) = 0;
  // Whole messages; longer ones than the route's limit close the connection with 1009.
  virtual void OnBinary(std::span<const uint8_t> message) = 0;
  virtual void OnText(std::string_view message) = 0;
  virtual void OnClose() = 0;
};

struct WebSocketRoute {
  std::string path;  // exact match
  // "" accepts requests without one, or with one that any route has; whoever offers only unknown
  // ones gets 400.
  std::string sub_protocol;
  size_t max_message_bytes = 1 << 16;
  std::function<std::unique_ptr<WebSocketHandler>(const ConnectionInfo&)> make_handler;
  Right right = Right::kNone;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::map<std::string, std::string> headers;
};

struct HttpRoute {
  std::string path;  // exact match, GET and HEAD
  std::function<HttpResponse(const ConnectionInfo&)> respond;
  Right right = Right::kNone;
};

struct ListenAddress {
  std::string address = "127.0.0.1";
  uint16_t port = 8998;  // 0: any free port, see WebServer::ports()
  bool tls = false;
  int inherited_fd = -1;  // >= 0: this socket, which listens already, and is ours from now on
};

// Who was turned away before any handler saw him. I/O thread only.
struct FrontCounters {
  uint64_t connections = 0, address = 0;    // too many, in all or from one address
  uint64_t origin = 0, key = 0, right = 0;  // AccessDecision::Refusal
  uint64_t slow = 0;                        // requests that did not come, answers not taken
};

struct WebServerOptions {
  std::vector<ListenAddress> listen;
  std::string certificate_file;  // PEM; needed where an address has tls
  std::string private_key_file;
  int ping_interval_s = 5;                  // silent peers are pinged, and cut after 2 unanswered
  size_t max_connections = 1024;            // more get 503; where TLS is expected, they are closed
  size_t max_connections_per_address = 64;  // of other machines
  bool limit_loopback = false;              // count this machine as another
  // From accepting a connection to its first whole request; answers may take six times as long.
  int idle_timeout_s = 10;
  AccessOptions access;
  std::shared_ptr<FrontCounters> counters = std::make_shared<FrontCounters>();
};

// A listen address that someone else has.
class AddressInUse : public InputError {
 public:
  using InputError::InputError;
};

class WebServer {
 public:
  // Binds and listens. Throws InputError (engine/error.h) naming the address or the file.
  WebServer(boost::asio::io_context& io, WebServerOptions options,
            std::vector<HttpRoute> http_routes, std::vector<WebSocketRoute> socket_routes);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // The port each listen address got, in order.
  std::vector<uint16_t> ports() const;
  // Stops listening; open sockets go on until they close or CloseAll.
  void StopAccepting();
  void CloseAll(uint16_t code, std::string_view reason);
  size_t open_sockets() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::daemon
