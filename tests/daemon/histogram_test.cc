#include "daemon/histogram.h"

#include <gtest/gtest.h>

namespace antiphon::daemon {
namespace {

using std::chrono::microseconds;

TEST(HistogramTest, EmptyIsZero) {
  Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.PercentileMs(0.99), 0.0);
  EXPECT_EQ(histogram.max_ms(), 0.0);
}

TEST(HistogramTest, PercentilesAreWithinABucketOfTheTruth) {
  Histogram histogram;
  for (int us = 1; us <= 100'000; ++us) histogram.Add(microseconds(us));
  EXPECT_EQ(histogram.count(), 100'000U);
  for (const double quantile : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const double truth = quantile * 100.0;
    EXPECT_GE(histogram.PercentileMs(quantile), truth * 0.999) << quantile;
    EXPECT_LE(histogram.PercentileMs(quantile), truth * 1.07 + 0.001) << quantile;
  }
  EXPECT_DOUBLE_EQ(histogram.max_ms(), 100.0);
  EXPECT_DOUBLE_EQ(histogram.PercentileMs(1.0), 100.0);
}

TEST(HistogramTest, TakesAnything) {
  Histogram histogram;
  histogram.Add(std::chrono::nanoseconds(-5));
  histogram.Add(std::chrono::hours(1000));
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_DOUBLE_EQ(histogram.max_ms(), 3.6e9);
}

}  // namespace
}  // namespace antiphon::daemon
