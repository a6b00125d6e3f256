// Time as the daemon sees it, so that tests run the scheduler without waiting.
#pragma once

#include <chrono>

namespace antiphon::daemon {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// May be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const noexcept = 0;
  // Returns at `deadline` or as soon after it as the machine can; at once where it is over.
  virtual void SleepUntil(Time deadline) noexcept = 0;
};

// CLOCK_MONOTONIC, with absolute sleeps so that errors do not add up.
class MonotonicClock final : public Clock {
 public:
  Time Now() const noexcept override;
  void SleepUntil(Time deadline) noexcept override;
};

}  // namespace antiphon::daemon
