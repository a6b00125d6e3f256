// Durations counted in fixed buckets: written by one thread without locks, read by any.
//
// Buckets are 16 to the octave from 1 us to over a minute, so a percentile is at most 6.3 % high.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace antiphon::daemon {

class Histogram {
 public:
  // One thread.
  void Add(std::chrono::nanoseconds duration) noexcept;

  // Any thread; what is added meanwhile may be seen or not.
  uint64_t count() const noexcept;
  // Upper edge of the bucket below which the share `quantile` (0..1) lies, in milliseconds, and
  // never more than max_ms(); 0 where nothing was added.
  double PercentileMs(double quantile) const noexcept;
  double max_ms() const noexcept;

 private:
  static constexpr int kSubBits = 4;
  static constexpr int kBuckets = 27 << kSubBits;
  static int Bucket(uint64_t us) noexcept;
  static uint64_t UpperUs(int bucket) noexcept;

  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
  std::atomic<int64_t> max_ns_{0};
};

}  // namespace antiphon::daemon
