// Keeps a client that does not read from piling up sound: what waits for the network is bounded in
// milliseconds, and a client that stays behind is given up.
#pragma once

#include <cstddef>

#include "daemon/clock.h"

namespace antiphon::daemon {

class SendBudget {
 public:
  enum class Verdict {
    kSend,
    kDrop,     // the frame is lost; the queue is at its bound
    kTooSlow,  // it has been so for kPatience: close
  };

  // Asked once per frame, before it is sent: `queued_bytes` wait already, the frame has
  // `frame_bytes` for 80 ms of sound.
  Verdict Ask(size_t queued_bytes, size_t frame_bytes, Time now) noexcept;

  static constexpr double kBoundMs = 400.0;
  static constexpr std::chrono::seconds kPatience{5};

 private:
  double bytes_per_ms_ = 0.0;  // of the last frames; silence is much shorter than speech
  bool behind_ = false;
  Time behind_since_;
};

}  // namespace antiphon::daemon
