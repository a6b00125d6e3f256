#include "daemon/send_budget.h"

#include <algorithm>

#include "daemon/lane.h"

namespace antiphon::daemon {

SendBudget::Verdict SendBudget::Ask(size_t queued_bytes, size_t frame_bytes, Time now) noexcept {
  const double rate = static_cast<double>(frame_bytes) / kFrameMs;
  bytes_per_ms_ = std::max(rate, bytes_per_ms_ * 0.98);
  if (static_cast<double>(queued_bytes) <= kBoundMs * bytes_per_ms_) {
    behind_ = false;
    return Verdict::kSend;
  }
  if (!behind_) behind_since_ = now;
  behind_ = true;
  return now - behind_since_ >= kPatience ? Verdict::kTooSlow : Verdict::kDrop;
}

}  // namespace antiphon::daemon
