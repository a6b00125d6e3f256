#include "daemon/clock.h"

#include <cerrno>
#include <ctime>

namespace antiphon::daemon {

// steady_clock counts CLOCK_MONOTONIC's nanoseconds in libstdc++, so both name the same instant.
Time MonotonicClock::Now() const noexcept { return std::chrono::steady_clock::now(); }

void MonotonicClock::SleepUntil(Time deadline) noexcept {
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
  timespec at{};
  at.tv_sec = static_cast<time_t>(since.count() / 1'000'000'000);
  at.tv_nsec = static_cast<long>(since.count() % 1'000'000'000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

}  // namespace antiphon::daemon
