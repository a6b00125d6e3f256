// The voice service behind the real web server, on a thread of its own, over a fake engine; clients
// come through real sockets.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "daemon/voice_service.h"
#include "daemon/web_server.h"
#include "tests/daemon/fake_engine.h"

namespace antiphon::daemon {

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> headers;
};

class ServiceRig {
 public:
  explicit ServiceRig(int slots, VoiceServiceOptions options = {}, WebServerOptions front = {})
      : engine(slots) {
    options.codec_threads = 2;
    options.realtime_priority = 0;
    service = std::make_unique<VoiceService>(io_, engine, options, clock_);
    front.listen = {{"127.0.0.1", 0, false}};
    server =
        std::make_unique<WebServer>(io_, front, service->http_routes(), service->socket_routes());
    port = server->ports().at(0);
    work_.emplace(io_.get_executor());
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ServiceRig() {
    engine.hang = false;
    OnLoop([this] {
      service->Stop();
      server.reset();
      service.reset();
    });
    work_.reset();
    thread_.join();
  }

  template <class F>
  std::invoke_result_t<F> OnLoop(F f) {
    std::packaged_task<std::invoke_result_t<F>()> task(f);
    auto result = task.get_future();
    boost::asio::post(io_, [&task] { task(); });
    return result.get();
  }

  boost::asio::ip::tcp::socket Connect() {
    boost::asio::ip::tcp::socket socket(client_io);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    return socket;
  }

  HttpAnswer Get(const std::string& target, const std::string& authorization = "") {
    namespace http = boost::beast::http;
    auto socket = Connect();
    http::request<http::empty_body> request(http::verb::get, target, 11);
    request.set(http::field::host, "localhost");
    if (!authorization.empty()) request.set(http::field::authorization, authorization);
    http::write(socket, request);
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(socket, buffer, response);
    HttpAnswer answer{static_cast<int>(response.result_int()), response.body(), {}};
    for (const auto& field : response) {
      answer.headers[std::string(field.name_string())] = std::string(field.value());
    }
    return answer;
  }

  bool Eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  FakeEngine engine;
  boost::asio::io_context client_io;
  std::unique_ptr<VoiceService> service;
  std::unique_ptr<WebServer> server;
  uint16_t port = 0;

 private:
  MonotonicClock clock_;
  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::thread thread_;
};

// A client of /v1/voice.
class VoiceTestClient {
 public:
  using Stream = boost::beast::websocket::stream<boost::asio::ip::tcp::socket>;
  struct End {
    uint16_t code = 0;
    std::string reason;
  };

  explicit VoiceTestClient(ServiceRig& rig, const std::string& target = "/v1/voice",
                           const std::string& authorization = "")
      : stream(rig.Connect()) {
    namespace websocket = boost::beast::websocket;
    stream.set_option(websocket::stream_base::decorator([=](websocket::request_type& request) {
      if (target.starts_with("/v1/")) {
        request.set(boost::beast::http::field::sec_websocket_protocol, "antiphon.v1");
      }
      if (!authorization.empty()) {
        request.set(boost::beast::http::field::authorization, authorization);
      }
    }));
    stream.handshake("localhost", target);
  }

  void Send(const nlohmann::json& message) {
    stream.text(true);
    stream.write(boost::asio::buffer(message.dump()));
  }
  // The next text message of this type; null where the connection ends first.
  nlohmann::json Await(const std::string& type) {
    for (;;) {
      boost::beast::flat_buffer buffer;
      boost::system::error_code error;
      stream.read(buffer, error);
      if (error) return nullptr;
      if (!stream.got_text()) {
        ++sounds;
        continue;
      }
      nlohmann::json message =
          nlohmann::json::parse(boost::beast::buffers_to_string(buffer.data()));
      if (message["type"] == type) return message;
    }
  }
  // Reads to the end of the connection.
  End AwaitEnd() {
    Await("there is no such type");
    return {stream.reason().code,
            std::string(stream.reason().reason.data(), stream.reason().reason.size())};
  }
  // As a network that is gone: no close frame.
  void Cut() {
    boost::system::error_code ignored;
    stream.next_layer().close(ignored);
  }

  Stream stream;
  int sounds = 0;  // binary messages read
};

}  // namespace antiphon::daemon
