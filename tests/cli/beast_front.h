// A second WebSocket front, on Boost.Beast, so that the client is tested without the daemon's own:
// plain ws, loopback, the routes' handlers behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/web_server.h"

namespace antiphon::daemon {

class BeastFront {
 public:
  // Listens on a free port of 127.0.0.1, in `io`, whose loop one thread runs.
  BeastFront(boost::asio::io_context& io, std::vector<WebSocketRoute> routes);
  ~BeastFront();
  uint16_t port() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace antiphon::daemon
