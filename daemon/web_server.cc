#include "daemon/web_server.h"

#include <libwebsockets.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>

#include "daemon/http_exchange.h"
#include "daemon/listener.h"
#include "daemon/refused_connection.h"
#include "daemon/uv_on_asio.h"
#include "daemon/websocket_peer.h"
#include "engine/error.h"

namespace antiphon::daemon {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kUnsentBytes =
    16384;  // that the kernel may hold of a connection, beyond those in flight
constexpr std::chrono::milliseconds kSweepEvery{100};
constexpr int kAnswerRounds = 6;

}  // namespace

class WebServer::State {
 public:
  State(asio::io_context& io, WebServerOptions options, std::vector<HttpRoute> http_routes,
        std::vector<WebSocketRoute> socket_routes)
      : io_(io),
        options_(std::move(options)),
        http_routes_(std::move(http_routes)),
        socket_routes_(std::move(socket_routes)),
        access_(options_.access),
        uv_(io),
        sweep_(io) {
    MakeProtocols();
    // Bound first: the cheap fault to make, and the one worth a word of its own.
    for (const ListenAddress& address : options_.listen) {
      listeners_.push_back(OpenListener(io, address));
    }
    MakeContext();
    for (auto& listener : listeners_) Accept(*listener);
    next_keep_alive_ = std::chrono::steady_clock::now() + KeepAliveEvery();
    Sweep();
  }

  ~State() {
    alive_.reset();
    StopAccepting();
    sweep_.cancel();
    DestroyContext();
    uv_.Close();
  }

  std::vector<uint16_t> ports() const {
    std::vector<uint16_t> ports;
    for (const auto& listener : listeners_) ports.push_back(listener->port);
    return ports;
  }

  void StopAccepting() {
    boost::system::error_code ignored;
    for (auto& listener : listeners_) listener->acceptor.close(ignored);
  }

  void CloseAll(uint16_t code, std::string_view reason) {
    for (auto& [wsi, connection] : connections_) {
      if (connection.peer != nullptr) connection.peer->Close(code, reason);
    }
  }

  size_t open_sockets() const {
    return static_cast<size_t>(
        std::count_if(connections_.begin(), connections_.end(),
                      [](const auto& entry) { return entry.second.peer != nullptr; }));
  }

 private:
  struct Connection {
    std::string remote_address;
    bool secure = false;
    std::unique_ptr<HttpExchange> exchange;
    std::unique_ptr<WebSocketPeer> peer;
    std::chrono::steady_clock::time_point since;  // it was accepted
  };

  std::chrono::seconds KeepAliveEvery() const {
    return std::chrono::seconds(std::max(1, options_.ping_interval_s));
  }

  void MakeProtocols() {
    // libwebsockets chooses by name; the route is found by its path, in the one callback.
    names_.insert("http");
    for (const WebSocketRoute& route : socket_routes_) {
      if (!route.sub_protocol.empty()) names_.insert(route.sub_protocol);
    }
    lws_protocols protocol{};
    protocol.callback = &State::Callback;
    protocol.rx_buffer_size = 16384;
    protocol.name = "http";
    protocols_.push_back(protocol);
    for (const std::string& name : names_) {
      if (name == "http") continue;
      protocol.name = name.c_str();
      protocols_.push_back(protocol);
    }
    protocols_.push_back({});
  }

  void MakeContext() {
    context_ = OpenContext(uv_.loop(), options_, this);
    for (auto& listener : listeners_) MakeVhost(*listener);
  }

  // On a loop that is not libwebsockets' own this takes two calls: the first closes all handles,
  // which the loop must then be run for, the second frees the context.
  void DestroyContext() {
    if (context_ == nullptr) return;
    lws_context* const context = std::exchange(context_, nullptr);
    lws_context_destroy(context);
    uv_.Drain();
    lws_context_destroy(context);
  }

  void MakeVhost(Listener& listener) {
    if (OpenVhost(context_, protocols_.data(), options_, this, &listener)) return;
    DestroyContext();
    throw InputError("certificate " + options_.certificate_file + ", private_key " +
                     options_.private_key_file +
                     ": expected a PEM certificate and its key, found something else");
  }

  void Accept(Listener& listener) {
    listener.acceptor.async_accept(
        listener.socket, [this, &listener, alive = std::weak_ptr<bool>(alive_)](
                             const boost::system::error_code& error) {
          if (alive.expired() || error == asio::error::operation_aborted ||
              !listener.acceptor.is_open()) {
            return;
          }
          if (!error) {
            Adopt(listener);
            Accept(listener);
            return;
          }
          // Out of descriptors: they come back when peers go.
          listener.retry.expires_after(kSweepEvery);
          listener.retry.async_wait([this, &listener, alive](const boost::system::error_code& e) {
            if (!e && !alive.expired()) Accept(listener);
          });
        });
  }

  void Adopt(Listener& listener) {
    boost::system::error_code error;
    const auto remote = listener.socket.remote_endpoint(error);
    if (error) {
      listener.socket.close(error);
      return;
    }
    const bool many = connections_.size() >= options_.max_connections;
    if (many || TooManyFrom(remote.address().to_string())) {
      ++(many ? options_.counters->connections : options_.counters->address);
      tcp::socket refused = std::move(listener.socket);
      // Words before a TLS handshake would not be understood.
      if (!listener.tls) RefuseConnection(std::move(refused), refused_);
      return;
    }
    listener.socket.non_blocking(true, error);
    listener.socket.set_option(tcp::no_delay(true), error);
    // What a slow client has not taken stays with us, where queued_bytes sees it.
    using UnsentLimit = boost::asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;
    listener.socket.set_option(UnsentLimit(kUnsentBytes), error);
    lws_sock_file_fd_type fd;
    fd.sockfd = listener.socket.release(error);
    const int type = LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | (listener.tls ? LWS_ADOPT_ALLOW_SSL : 0);
    lws* const wsi = lws_adopt_descriptor_vhost(
        listener.vhost, static_cast<lws_adoption_type>(type), fd, nullptr, nullptr);
    // On failure libwebsockets has closed the socket.
    if (wsi != nullptr) {
      connections_[wsi] = {remote.address().to_string(), listener.tls, nullptr, nullptr,
                           std::chrono::steady_clock::now()};
    }
    uv_.Kick();
  }

  bool TooManyFrom(const std::string& address) const {
    if (IsLoopback(address) && !options_.limit_loopback) return false;
    const auto same =
        std::count_if(connections_.begin(), connections_.end(),
                      [&](const auto& entry) { return entry.second.remote_address == address; });
    return static_cast<size_t>(same) >= options_.max_connections_per_address;
  }

  void Sweep() {
    const auto now = std::chrono::steady_clock::now();
    const bool keep_alive = now >= next_keep_alive_;
    if (keep_alive) next_keep_alive_ = now + KeepAliveEvery();
    std::vector<lws*> idle;
    for (auto& [wsi, connection] : connections_) {
      if (connection.peer == nullptr) {
        if (Idle(connection, now)) idle.push_back(wsi);
        continue;
      }
      if (keep_alive) connection.peer->KeepAlive();
      connection.peer->CheckDeadline(now);
    }
    // Each takes itself out of connections_.
    options_.counters->slow += idle.size();
    for (lws* const wsi : idle) lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
    if (!idle.empty()) uv_.Kick();
    sweep_.expires_after(kSweepEvery);
    sweep_.async_wait(
        [this, alive = std::weak_ptr<bool>(alive_)](const boost::system::error_code& error) {
          if (!error && !alive.expired()) Sweep();
        });
  }

  // libwebsockets' own limits are coarse and begin anew with what trickles in.
  bool Idle(const Connection& connection, std::chrono::steady_clock::time_point now) const {
    const std::chrono::seconds limit(options_.idle_timeout_s);
    const bool answering = connection.exchange != nullptr;
    if (answering && connection.exchange->done()) return false;  // libwebsockets' own limit holds
    return now - connection.since >= (answering ? kAnswerRounds * limit : limit);
  }

  // The C boundary: nothing may be thrown through libwebsockets.
  static int Callback(lws* wsi, lws_callback_reasons reason, void*, void* in, size_t size) {
    lws_context* const context = wsi == nullptr ? nullptr : lws_get_context(wsi);
    auto* const self =
        context == nullptr ? nullptr : static_cast<State*>(lws_context_user(context));
    if (self == nullptr) return 0;
    try {
      return self->OnEvent(wsi, reason, in, size);
    } catch (const std::exception&) {
      return -1;  // this connection ends; the others go on
    }
  }

  int OnEvent(lws* wsi, lws_callback_reasons reason, void* in, size_t size) {
    const auto found = connections_.find(wsi);
    if (found == connections_.end()) return 0;
    Connection& connection = found->second;
    WebSocketPeer* const peer = connection.peer.get();
    switch (reason) {
      case LWS_CALLBACK_HTTP:
        return Respond(wsi, connection);
      case LWS_CALLBACK_HTTP_WRITEABLE:
        return connection.exchange == nullptr ? 0 : connection.exchange->OnWritable(wsi);
      case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return ConfirmUpgrade(wsi, connection);
      case LWS_CALLBACK_ESTABLISHED:
        return peer == nullptr ? -1 : peer->OnOpen();
      case LWS_CALLBACK_RECEIVE:
        return peer == nullptr ? -1 : peer->OnReceive({static_cast<const uint8_t*>(in), size});
      case LWS_CALLBACK_RECEIVE_PONG:
        if (peer != nullptr) peer->OnPong();
        return 0;
      case LWS_CALLBACK_SERVER_WRITEABLE:
        return peer == nullptr ? 0 : peer->OnWritable();
      case LWS_CALLBACK_CLOSED:
        if (peer != nullptr) peer->OnClosed();
        return 0;
      case LWS_CALLBACK_WSI_DESTROY:
        if (peer != nullptr) peer->OnClosed();
        connections_.erase(wsi);
        return 0;
      default:
        return 0;
    }
  }

  int Respond(lws* wsi, Connection& connection) {
    const HttpRequest request = ReadRequest(wsi, connection.remote_address, connection.secure);
    HttpResponse response;
    const auto route =
        std::find_if(http_routes_.begin(), http_routes_.end(),
                     [&](const HttpRoute& r) { return r.path == request.info.path; });
    if (route == http_routes_.end()) {
      const bool socket = FindSocketRoute(request.info.path) != nullptr;
      response.status = socket ? 426 : 404;
      response.body = socket ? "expected a WebSocket upgrade\n" : "not found\n";
      if (socket) response.headers["Upgrade"] = "websocket";
    } else if (request.method == HttpMethod::kOther) {
      response.status = 405;
      response.body = "expected GET or HEAD\n";
      response.headers["Allow"] = "GET, HEAD";
    } else {
      const AccessDecision decision = access_.Check(request.access(), route->right, false);
      response = decision.refusal == AccessDecision::Refusal::kNone
                     ? Cached(request, route->respond(request.info))
                     : Refusal(decision, options_.counters.get());
    }
    connection.since = std::chrono::steady_clock::now();
    connection.exchange = std::make_unique<HttpExchange>(std::move(response), request.method);
    return connection.exchange->Start(wsi);
  }

  // libwebsockets: 0 goes on with the upgrade, 1 says that we have answered.
  int ConfirmUpgrade(lws* wsi, Connection& connection) {
    HttpRequest request = ReadRequest(wsi, connection.remote_address, connection.secure);
    const WebSocketRoute* const route = FindSocketRoute(request.info.path);
    HttpResponse refusal;
    if (route == nullptr) {
      refusal.status = 404;
      refusal.body = "not found\n";
    } else if (!route->sub_protocol.empty() && !Offers(request, route->sub_protocol)) {
      refusal.status = 400;
      refusal.body = "expected Sec-WebSocket-Protocol: " + route->sub_protocol + "\n";
    } else if (!request.sub_protocols.empty() && !OffersKnown(request)) {
      // libwebsockets would hang up without a word, and a browser whose offers all go unanswered
      // would give up the connection anyway.
      refusal.status = 400;
      refusal.body = "expected no Sec-WebSocket-Protocol, found unknown ones only\n";
    } else if (!Grant(*route, &request, &refusal)) {
      // answered below
    } else {
      connection.peer = std::make_unique<WebSocketPeer>(
          wsi, std::move(request.info), *route, [this] { uv_.Kick(); },
          [this, wsi] { FinishCloseLater(wsi); });
      return 0;
    }
    return RefuseUpgrade(wsi, refusal);
  }

  // Notes in the request who it is; false, and an answer, where he may not come in.
  bool Grant(const WebSocketRoute& route, HttpRequest* request, HttpResponse* refusal) {
    const AccessDecision decision = access_.Check(request->access(), route.right, true);
    request->info.key_name = decision.key_name;
    request->info.priority = decision.priority;
    if (decision.refusal == AccessDecision::Refusal::kNone) return true;
    *refusal = Refusal(decision, options_.counters.get());
    const bool page = !request->info.origin.empty() && !route.sub_protocol.empty();
    if (!page || decision.refusal == AccessDecision::Refusal::kOrigin) return false;
    request->info.refusal = decision.reason();
    return true;
  }

  bool OffersKnown(const HttpRequest& request) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const std::string& name) { return Offers(request, name); });
  }

  void FinishCloseLater(lws* wsi) {
    asio::post(io_, [this, wsi, alive = std::weak_ptr<bool>(alive_)] {
      if (alive.expired()) return;
      const auto found = connections_.find(wsi);
      if (found == connections_.end() || found->second.peer == nullptr) return;
      found->second.peer->FinishClose();
      uv_.Kick();
    });
  }

  const WebSocketRoute* FindSocketRoute(const std::string& path) const {
    for (const WebSocketRoute& route : socket_routes_) {
      if (route.path == path) return &route;
    }
    return nullptr;
  }

  // Given to us.
  asio::io_context& io_;
  const WebServerOptions options_;
  const std::vector<HttpRoute> http_routes_;
  const std::vector<WebSocketRoute> socket_routes_;
  // Owned by us.
  const AccessControl access_;
  UvOnAsio uv_;
  asio::steady_timer sweep_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::set<std::string> names_;
  std::vector<lws_protocols> protocols_;
  lws_context* context_ = nullptr;
  // State.
  std::map<lws*, Connection> connections_;
  std::shared_ptr<int> refused_ = std::make_shared<int>(0);
  std::chrono::steady_clock::time_point next_keep_alive_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

WebServer::WebServer(asio::io_context& io, WebServerOptions options,
                     std::vector<HttpRoute> http_routes, std::vector<WebSocketRoute> socket_routes)
    : state_(std::make_unique<State>(io, std::move(options), std::move(http_routes),
                                     std::move(socket_routes))) {}

WebServer::~WebServer() = default;
std::vector<uint16_t> WebServer::ports() const { return state_->ports(); }
void WebServer::StopAccepting() { state_->StopAccepting(); }
void WebServer::CloseAll(uint16_t code, std::string_view reason) { state_->CloseAll(code, reason); }
size_t WebServer::open_sockets() const { return state_->open_sockets(); }

}  // namespace antiphon::daemon
