#include "daemon/refused_connection.h"

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string_view>
#include <utility>

namespace antiphon::daemon {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::chrono::seconds kHearWithin{1};
constexpr std::string_view kAnswer =
    "HTTP/1.1 503 Service Unavailable\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    "Content-Length: 26\r\n"
    "Retry-After: 2\r\n"
    "Connection: close\r\n\r\n"
    "all connections are taken\n";

// Lives in its handlers. What the peer sends is read and forgotten: a socket closed with unread
// bytes is reset, and the reset overtakes the answer.
class Refusal : public std::enable_shared_from_this<Refusal> {
 public:
  Refusal(tcp::socket socket, std::shared_ptr<int> open)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), open_(std::move(open)) {
    ++*open_;
  }
  ~Refusal() { --*open_; }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  void Start() {
    timer_.expires_after(kHearWithin);
    timer_.async_wait([self = shared_from_this()](const Error& error) {
      if (!error) self->End();
    });
    asio::async_write(socket_, asio::buffer(kAnswer),
                      [self = shared_from_this()](const Error& error, size_t) {
                        if (error) return self->End();
                        Error ignored;
                        self->socket_.shutdown(tcp::socket::shutdown_send, ignored);
                        self->Forget();
                      });
  }

 private:
  void Forget() {
    socket_.async_read_some(asio::buffer(unread_),
                            [self = shared_from_this()](const Error& error, size_t) {
                              if (error) return self->End();
                              self->Forget();
                            });
  }
  void End() {
    timer_.cancel();
    Error ignored;
    socket_.close(ignored);
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  std::shared_ptr<int> open_;
  std::array<char, 4096> unread_;
};

}  // namespace

void RefuseConnection(tcp::socket socket, std::shared_ptr<int> open) {
  if (*open >= kMaxRefusedConnections) return;  // closed as it goes
  std::make_shared<Refusal>(std::move(socket), std::move(open))->Start();
}

}  // namespace antiphon::daemon
