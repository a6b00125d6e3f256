// A web server on a thread of its own, with an echoing handler, and the Boost.Beast client for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/web_server.h"

namespace antiphon::daemon {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using Socket = websocket::stream<tcp::socket>;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline constexpr size_t kMaxMessageBytes = 1 << 16;

// What the handlers saw; read by the test through OnLoop.
struct Seen {
  int opened = 0, closed = 0;
  ConnectionInfo info;
  WebSocket* socket = nullptr;
};

class Echo : public WebSocketHandler {
 public:
  explicit Echo(Seen& seen) : seen_(seen) {}
  void OnOpen(WebSocket& socket) override {
    socket_ = seen_.socket = &socket;
    seen_.info = socket.info();
    ++seen_.opened;
  }
  void OnBinary(std::span<const uint8_t> message) override { socket_->SendBinary(message); }
  void OnText(std::string_view message) override {
    if (message == "close") {
      socket_->SendText("last");
      socket_->Close(1013, "busy");
    }
    socket_->SendText(message);
  }
  void OnClose() override {
    ++seen_.closed;
    seen_.socket = nullptr;
  }

 private:
  Seen& seen_;
  WebSocket* socket_ = nullptr;
};

class WebServerTest : public testing::Test {
 protected:
  void SetUp() override {
    WebServerOptions options;
    options.listen = {{"127.0.0.1", 0, false}};
    Start(options);
  }

  void TearDown() override { Stop(); }

  template <class F>
  auto OnLoop(F f) {
    std::packaged_task<decltype(f())()> task(f);
    auto result = task.get_future();
    asio::post(io_, [&task] { task(); });
    return result.get();
  }

  void Start(WebServerOptions options) {
    std::vector<WebSocketRoute> sockets;
    const auto make = [this](const ConnectionInfo&) { return std::make_unique<Echo>(seen_); };
    sockets.push_back({"/echo", "antiphon.v1", kMaxMessageBytes, make});
    sockets.push_back({"/any", "", kMaxMessageBytes, make});
    std::vector<HttpRoute> pages;
    pages.push_back({"/hello", [](const ConnectionInfo& info) {
                       std::string body = "hello";
                       for (const auto& [key, value] : info.query) body += "|" + key + "=" + value;
                       return HttpResponse{200, "text/plain", body, {{"ETag", "\"7\""}}};
                     }});
    pages.push_back({"/large", [](const ConnectionInfo&) {
                       return HttpResponse{200, "text/plain", std::string(300000, 'x'), {}};
                     }});
    server_ = std::make_unique<WebServer>(io_, options, pages, sockets);
    port_ = server_->ports().at(0);
    work_.emplace(io_.get_executor());
    thread_ = std::thread([this] { io_.run(); });
  }

  void Stop() {
    if (!thread_.joinable()) return;
    OnLoop([this] { server_.reset(); });
    work_.reset();
    thread_.join();
  }

  bool Eventually(const std::function<bool()>& condition) {
    const auto until = steady_clock::now() + std::chrono::seconds(20);
    while (steady_clock::now() < until) {
      if (OnLoop(condition)) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  tcp::socket Connect() {
    tcp::socket socket(client_io_);
    socket.connect({asio::ip::make_address("127.0.0.1"), port_});
    socket.set_option(tcp::no_delay(true));
    return socket;
  }

  Socket Open(const std::string& target, const std::string& protocols = "") {
    Socket socket(Connect());
    Handshake(socket, target, protocols, nullptr);
    return socket;
  }

  void Handshake(Socket& socket, const std::string& target, const std::string& protocols,
                 websocket::response_type* response) {
    if (!protocols.empty()) {
      socket.set_option(websocket::stream_base::decorator([=](websocket::request_type& request) {
        request.set(http::field::sec_websocket_protocol, protocols);
      }));
    }
    websocket::response_type local;
    socket.handshake(response == nullptr ? local : *response, "localhost", target);
  }

  std::string Raw(const std::string& request) {
    tcp::socket socket = Connect();
    asio::write(socket, asio::buffer(request));
    std::string answer;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    return answer;
  }

  Seen seen_;
  asio::io_context io_, client_io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::unique_ptr<WebServer> server_;
  std::thread thread_;
  uint16_t port_ = 0;
};

inline std::string Read(Socket& socket) {
  beast::flat_buffer buffer;
  socket.read(buffer);
  return beast::buffers_to_string(buffer.data());
}

}  // namespace antiphon::daemon
