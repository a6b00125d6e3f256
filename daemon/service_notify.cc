#include "daemon/service_notify.h"

#include <systemd/sd-daemon.h>

#include <utility>

namespace antiphon::daemon {

ServiceNotify::ServiceNotify(boost::asio::io_context& io, std::function<uint64_t()> ticks)
    : ticks_(std::move(ticks)), timer_(io) {
  uint64_t period_us = 0;
  if (sd_watchdog_enabled(0, &period_us) <= 0) return;
  every_ = std::chrono::microseconds(period_us / 4);
  Wait();
}

void ServiceNotify::Ready() { sd_notify(0, "READY=1\nSTATUS=admitting callers"); }

void ServiceNotify::Stopping() { sd_notify(0, "STOPPING=1\nSTATUS=draining"); }

void ServiceNotify::Wait() {
  timer_.expires_after(every_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const uint64_t ticks = ticks_();
    if (std::exchange(fed_, ticks) != ticks) sd_notify(0, "WATCHDOG=1");
    Wait();
  });
}

}  // namespace antiphon::daemon
