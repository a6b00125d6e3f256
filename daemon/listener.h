// One address that the web server listens at. I/O thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "daemon/web_server.h"

struct lws_context;
struct lws_protocols;
struct lws_vhost;

namespace antiphon::daemon {

struct Listener {
  explicit Listener(boost::asio::io_context& io) : acceptor(io), socket(io), retry(io) {}
  boost::asio::ip::tcp::acceptor acceptor;
  boost::asio::ip::tcp::socket socket;  // the next to be accepted
  boost::asio::steady_timer retry;
  uint16_t port = 0;
  bool tls = false;
  std::string name;  // libwebsockets keeps the pointer
  lws_vhost* vhost = nullptr;
};

// Binds and listens, or takes the socket that was handed over. Throws InputError naming the
// address, AddressInUse where someone else has it.
std::unique_ptr<Listener> OpenListener(boost::asio::io_context& io, const ListenAddress& address);

// libwebsockets on a libuv loop, without virtual hosts; `user` is what lws_context_user gives.
// Throws InputError.
lws_context* OpenContext(void* uv_loop, const WebServerOptions& options, void* user);

// Gives libwebsockets a virtual host for the listener's connections. False where certificate and
// key do not fit. Throws InputError for files that cannot be read.
bool OpenVhost(lws_context* context, const lws_protocols* protocols,
               const WebServerOptions& options, void* user, Listener* listener);

}  // namespace antiphon::daemon
