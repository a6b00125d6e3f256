// Listening sockets that the service manager hands over (sd_listen_fds(3)).
#pragma once

#include <vector>

#include "daemon/web_server.h"

namespace antiphon::daemon {

// Empty where none were handed over. A socket named "https" expects TLS. Takes LISTEN_FDS out of
// the environment, so it tells them once. Throws InputError for a descriptor that is not a
// listening TCP socket.
std::vector<ListenAddress> InheritedSockets();

}  // namespace antiphon::daemon
