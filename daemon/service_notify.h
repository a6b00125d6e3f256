// The service manager's side of the daemon: readiness, state, and the watchdog (sd_notify(3)).
//
// I/O thread only. Without a service manager it does nothing.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>

namespace antiphon::daemon {

class ServiceNotify {
 public:
  // `ticks` counts turns of the tick loop and may be called until we are gone. Where the manager
  // asked for a watchdog (WATCHDOG_USEC), it is fed four times per period from now on, but only if
  // the count has grown since the feed before: a daemon whose engine hangs is ended by the manager.
  ServiceNotify(boost::asio::io_context& io, std::function<uint64_t()> ticks);
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  void Ready();
  void Stopping();

 private:
  void Wait();

  // Given to us.
  const std::function<uint64_t()> ticks_;
  // Owned by us.
  boost::asio::steady_timer timer_;
  // State.
  std::chrono::microseconds every_{0};
  uint64_t fed_ = 0;  // the count at the last feed
};

}  // namespace antiphon::daemon
