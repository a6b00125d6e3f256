#include "daemon/listener.h"

#include <libwebsockets.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>

namespace antiphon::daemon {
namespace {

constexpr int kKeepAliveTimeout_s = 30;
constexpr unsigned short kMaxHeaderBytes = 8192;

void CheckReadable(const char* key, const std::string& file) {
  if (access(file.c_str(), R_OK) == 0) return;
  throw InputError(std::string(key) + ": expected a readable PEM file, found \"" + file + "\"");
}

}  // namespace

namespace asio = boost::asio;
using asio::ip::tcp;

std::unique_ptr<Listener> OpenListener(asio::io_context& io, const ListenAddress& address) {
  const std::string shown = address.address + ":" + std::to_string(address.port);
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address.address, error);
  if (error) {
    throw InputError("listen " + shown + ": expected a numeric IPv4 or IPv6 address, found \"" +
                     address.address + "\"");
  }
  auto listener = std::make_unique<Listener>(io);
  tcp::acceptor& acceptor = listener->acceptor;
  const tcp::endpoint endpoint(ip, address.port);
  if (address.inherited_fd >= 0) {
    acceptor.assign(endpoint.protocol(), address.inherited_fd, error);
  } else {
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && ip.is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error == asio::error::address_in_use) {
    throw AddressInUse("listen " + shown + ": expected a free port, found it in use");
  }
  if (error) throw InputError("listen " + shown + ": " + error.message());
  listener->port = acceptor.local_endpoint().port();
  listener->tls = address.tls;
  return listener;
}

lws_context* OpenContext(void* uv_loop, const WebServerOptions& options, void* user) {
  lws_set_log_level(LLL_ERR, [](int, const char*) {});  // peers' faults are theirs to know
  void* loops[1] = {uv_loop};
  lws_context_creation_info info{};
  info.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                 LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_VALIDATE_UTF8;
  info.foreign_loops = loops;
  info.user = user;
  info.gid = static_cast<gid_t>(-1);
  info.uid = static_cast<uid_t>(-1);
  info.max_http_header_data = kMaxHeaderBytes;
  info.max_http_header_pool =
      static_cast<unsigned short>(std::clamp<size_t>(options.max_connections, 16, 1024));
  info.timeout_secs = static_cast<unsigned>(options.idle_timeout_s);
  info.timeout_secs_ah_idle = static_cast<unsigned>(options.idle_timeout_s);
  lws_context* const context = lws_create_context(&info);
  if (context != nullptr) return context;
  throw InputError("web server: libwebsockets did not start; is libwebsockets-evlib-uv there?");
}

bool OpenVhost(lws_context* context, const lws_protocols* protocols,
               const WebServerOptions& options, void* user, Listener* opened) {
  Listener& listener = *opened;
  listener.name = (listener.tls ? "tls" : "plain") + std::to_string(listener.port);
  lws_context_creation_info info{};
  info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
  info.protocols = protocols;
  info.vhost_name = listener.name.c_str();
  info.keepalive_timeout = kKeepAliveTimeout_s;
  info.timeout_secs = static_cast<unsigned>(options.idle_timeout_s);
  info.options = LWS_SERVER_OPTION_VALIDATE_UTF8;
  info.alpn = "http/1.1";
  info.user = user;
  if (listener.tls) {
    CheckReadable("certificate", options.certificate_file);
    CheckReadable("private_key", options.private_key_file);
    info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info.ssl_cert_filepath = options.certificate_file.c_str();
    info.ssl_private_key_filepath = options.private_key_file.c_str();
    info.ssl_options_set = SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1;
  }
  listener.vhost = lws_create_vhost(context, &info);
  return listener.vhost != nullptr;
}

}  // namespace antiphon::daemon
