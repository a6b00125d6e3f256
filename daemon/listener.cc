#include "daemon/listener.h"

#include <boost/asio/ip/v6_only.hpp>

namespace antiphon::daemon {

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

}  // namespace antiphon::daemon
