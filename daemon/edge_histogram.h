// Durations counted between fixed edges, as Prometheus wants them: written by one thread without
// locks, read by any. The edges stand close around the 80 ms of a tick, where a few decide.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace antiphon::daemon {

class EdgeHistogram {
 public:
  // Upper edges, inclusive; one more bucket takes what is longer.
  static constexpr std::array<int, 18> kEdges_us = {500,   1000,   2000,   5000,   10000,  20000,
                                                    40000, 60000,  70000,  76000,  80000,  84000,
                                                    90000, 100000, 120000, 160000, 320000, 1000000};

  // One thread. Negative durations count as zero.
  void Add(std::chrono::nanoseconds duration) noexcept {
    const auto us = static_cast<uint64_t>(std::max<int64_t>(0, duration.count() / 1000));
    size_t bucket = 0;
    while (bucket < kEdges_us.size() && us > static_cast<uint64_t>(kEdges_us[bucket])) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(us, std::memory_order_relaxed);
  }

  // Any thread. Bucket n holds what is over edge n - 1 and not over edge n.
  uint64_t count(size_t bucket) const noexcept {
    return counts_[bucket].load(std::memory_order_relaxed);
  }
  double sum_s() const noexcept {
    return static_cast<double>(sum_us_.load(std::memory_order_relaxed)) / 1e6;
  }

 private:
  std::array<std::atomic<uint64_t>, kEdges_us.size() + 1> counts_{};
  std::atomic<uint64_t> sum_us_{0};
};

}  // namespace antiphon::daemon
