#include "daemon/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace antiphon::daemon {

// Below 16 us a bucket is 1 us wide; above, the highest set bit picks the octave and the four bits
// after it the bucket in it.
int Histogram::Bucket(uint64_t us) noexcept {
  constexpr uint64_t kSub = 1U << kSubBits;
  if (us < kSub) return static_cast<int>(us);
  const int octave = static_cast<int>(std::bit_width(us)) - 1 - kSubBits;
  const auto sub = static_cast<int>((us >> octave) - kSub);
  return std::min(kBuckets - 1, ((octave + 1) << kSubBits) + sub);
}

uint64_t Histogram::UpperUs(int bucket) noexcept {
  constexpr int kSub = 1 << kSubBits;
  if (bucket < kSub) return static_cast<uint64_t>(bucket) + 1;
  const int octave = (bucket >> kSubBits) - 1;
  return static_cast<uint64_t>(kSub + (bucket & (kSub - 1)) + 1) << octave;
}

void Histogram::Add(std::chrono::nanoseconds duration) noexcept {
  const int64_t ns = std::max<int64_t>(0, duration.count());
  counts_[static_cast<size_t>(Bucket(static_cast<uint64_t>(ns / 1000)))].fetch_add(
      1, std::memory_order_relaxed);
  if (ns > max_ns_.load(std::memory_order_relaxed)) max_ns_.store(ns, std::memory_order_relaxed);
}

uint64_t Histogram::count() const noexcept {
  uint64_t sum = 0;
  for (const auto& bucket : counts_) sum += bucket.load(std::memory_order_relaxed);
  return sum;
}

double Histogram::max_ms() const noexcept {
  return static_cast<double>(max_ns_.load(std::memory_order_relaxed)) / 1e6;
}

double Histogram::PercentileMs(double quantile) const noexcept {
  const uint64_t total = count();
  if (total == 0) return 0.0;
  const auto rank = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(total))));
  uint64_t seen = 0;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[static_cast<size_t>(bucket)].load(std::memory_order_relaxed);
    if (seen >= rank) return std::min(max_ms(), static_cast<double>(UpperUs(bucket)) / 1e3);
  }
  return max_ms();
}

}  // namespace antiphon::daemon
