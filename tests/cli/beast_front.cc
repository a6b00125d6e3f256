#include "tests/cli/beast_front.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>

namespace antiphon::daemon {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using Error = boost::system::error_code;

class Connection final : public WebSocket, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const std::vector<WebSocketRoute>& routes)
      : routes_(routes), stream_(std::move(socket)) {}

  void Begin() {
    http::async_read(stream_.next_layer(), buffer_, request_,
                     [self = shared_from_this()](const Error& error, size_t) {
                       if (!error) self->Accept();
                     });
  }

  const ConnectionInfo& info() const override { return info_; }
  void SendBinary(std::span<const uint8_t> message) override {
    Queue({true, {message.begin(), message.end()}});
  }
  void SendText(std::string_view message) override {
    Queue({false, {message.begin(), message.end()}});
  }
  size_t queued_bytes() const override { return queued_; }
  void Close(uint16_t code, std::string_view reason) override {
    closing_ = true;
    reason_.code = code;
    reason_.reason.assign(reason.data(), reason.size());
    Flush();
  }

 private:
  struct Message {
    bool binary;
    std::vector<uint8_t> bytes;
  };

  void Accept() {
    info_.path = std::string(request_.target());
    const auto route = std::find_if(routes_.begin(), routes_.end(),
                                    [this](const auto& r) { return r.path == info_.path; });
    if (route == routes_.end()) return;
    const std::string protocol = route->sub_protocol;
    stream_.set_option(websocket::stream_base::decorator([protocol](auto& response) {
      response.set(http::field::sec_websocket_protocol, protocol);
    }));
    stream_.async_accept(request_, [self = shared_from_this(), route](const Error& error) {
      if (error) return;
      self->handler_ = route->make_handler(self->info_);
      self->handler_->OnOpen(*self);
      self->Read();
    });
  }

  void Read() {
    stream_.async_read(message_, [self = shared_from_this()](const Error& error, size_t) {
      if (error) {
        if (auto handler = std::move(self->handler_)) handler->OnClose();
        return;
      }
      const auto data = self->message_.data();
      const auto* bytes = static_cast<const uint8_t*>(data.data());
      if (self->stream_.got_binary()) {
        self->handler_->OnBinary({bytes, data.size()});
      } else {
        self->handler_->OnText({reinterpret_cast<const char*>(bytes), data.size()});
      }
      self->message_.consume(data.size());
      self->Read();
    });
  }

  void Queue(Message message) {
    if (closing_) return;
    queued_ += message.bytes.size();
    queue_.push_back(std::move(message));
    Flush();
  }

  void Flush() {
    if (sending_) return;
    if (queue_.empty()) {
      if (!closing_) return;
      sending_ = true;
      stream_.async_close(reason_, [self = shared_from_this()](const Error&) {});
      return;
    }
    sending_ = true;
    stream_.binary(queue_.front().binary);
    stream_.async_write(asio::buffer(queue_.front().bytes),
                        [self = shared_from_this()](const Error& error, size_t) {
                          self->sending_ = false;
                          if (error) return;
                          self->queued_ -= self->queue_.front().bytes.size();
                          self->queue_.pop_front();
                          self->Flush();
                        });
  }

  const std::vector<WebSocketRoute>& routes_;
  websocket::stream<tcp::socket> stream_;
  beast::flat_buffer buffer_, message_;
  http::request<http::string_body> request_;
  ConnectionInfo info_;
  std::unique_ptr<WebSocketHandler> handler_;
  std::deque<Message> queue_;
  size_t queued_ = 0;
  bool sending_ = false, closing_ = false;
  websocket::close_reason reason_;
};

}  // namespace

struct BeastFront::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, std::vector<WebSocketRoute> given)
      : routes(std::move(given)),
        acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {}
  void Accept() {
    acceptor.async_accept([self = shared_from_this()](const Error& error, tcp::socket socket) {
      if (error) return;
      socket.set_option(tcp::no_delay(true));
      std::make_shared<Connection>(std::move(socket), self->routes)->Begin();
      self->Accept();
    });
  }
  std::vector<WebSocketRoute> routes;
  tcp::acceptor acceptor;
};

BeastFront::BeastFront(asio::io_context& io, std::vector<WebSocketRoute> routes)
    : state_(std::make_shared<State>(io, std::move(routes))) {
  state_->Accept();
}
BeastFront::~BeastFront() {
  Error ignored;
  state_->acceptor.close(ignored);
}
uint16_t BeastFront::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace antiphon::daemon
