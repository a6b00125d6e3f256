#include "daemon/inherited_sockets.h"

#include <systemd/sd-daemon.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace antiphon::daemon {
namespace {

struct FreeNames {
  void operator()(char** names) const {
    for (char** name = names; *name != nullptr; ++name) std::free(*name);
    std::free(names);
  }
};

}  // namespace

std::vector<ListenAddress> InheritedSockets() {
  char** given = nullptr;
  const int count = sd_listen_fds_with_names(1, &given);
  const std::unique_ptr<char*, FreeNames> names(given);
  std::vector<ListenAddress> sockets;
  for (int n = 0; n < count; ++n) {
    const int fd = SD_LISTEN_FDS_START + n;
    boost::asio::ip::tcp::endpoint local;
    auto size = static_cast<socklen_t>(local.capacity());
    if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) <= 0 ||
        getsockname(fd, local.data(), &size) != 0) {
      throw InputError("LISTEN_FDS: expected listening TCP sockets, found descriptor " +
                       std::to_string(fd) + " to be something else");
    }
    local.resize(size);
    const bool tls = given != nullptr && std::string_view(given[n]) == "https";
    sockets.push_back({local.address().to_string(), local.port(), tls, fd});
  }
  return sockets;
}

}  // namespace antiphon::daemon
