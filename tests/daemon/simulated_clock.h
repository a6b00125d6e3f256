// A clock that moves only when told to, or when somebody sleeps on it.
#pragma once

#include <atomic>

#include "daemon/clock.h"

namespace antiphon::daemon {

class SimulatedClock final : public Clock {
 public:
  Time Now() const noexcept override { return Time(Duration(now_.load())); }
  void SleepUntil(Time deadline) noexcept override {
    if (deadline > Now()) now_.store(deadline.time_since_epoch().count());
  }
  void Advance(Duration duration) noexcept { now_.fetch_add(duration.count()); }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace antiphon::daemon
