#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace antiphon::kernels {
namespace {

// Known answers of Random123 1.09 (kat_vectors, philox4x32, 10 rounds).
TEST(PhiloxTest, KnownAnswers) {
  const Philox zero = PhiloxBlock(0, 0, 0);
  EXPECT_EQ(zero.v[0], 0x6627e8d5U);
  EXPECT_EQ(zero.v[1], 0xe169c58dU);
  EXPECT_EQ(zero.v[2], 0xbc57ac4cU);
  EXPECT_EQ(zero.v[3], 0x9b00dbd8U);
  constexpr uint64_t kOnes = std::numeric_limits<uint64_t>::max();
  const Philox ones = PhiloxBlock(kOnes, kOnes, kOnes);
  EXPECT_EQ(ones.v[0], 0x408f276dU);
  EXPECT_EQ(ones.v[1], 0x41c83b0eU);
  EXPECT_EQ(ones.v[2], 0xa20bc7c6U);
  EXPECT_EQ(ones.v[3], 0x6d5451fdU);
}

int32_t Sample(const std::vector<float>& logits, float temperature, int32_t top_k, uint64_t seed,
               int64_t evaluation) {
  std::vector<Candidate> candidates(logits.size());
  return SampleToken(logits.data(), static_cast<int32_t>(logits.size()), temperature, top_k,
                     candidates.data(), nullptr, seed, evaluation, 0);
}

TEST(SampleTokenTest, GreedyTakesTheLowestOfEqualMaxima) {
  EXPECT_EQ(Sample({1.0F, 3.0F, 3.0F, 2.0F}, 0.0F, 0, 1, 1), 1);
}

TEST(SampleTokenTest, TopOneIsGreedyAtAnyTemperature) {
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(Sample({0.1F, 0.2F, 0.15F}, 2.0F, 1, 7, i), 1);
}

TEST(SampleTokenTest, DrawsDependOnSeedAndEvaluationAlone) {
  const std::vector<float> logits(64, 0.0F);
  int same = 0;
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(Sample(logits, 1.0F, 0, 5, i), Sample(logits, 1.0F, 0, 5, i));
    if (Sample(logits, 1.0F, 0, 5, i) == Sample(logits, 1.0F, 0, 6, i)) ++same;
  }
  EXPECT_LT(same, 10);  // 100 / 64 expected
}

// A broken checkpoint may give NaN: never chosen while anything else is there, never a crash.
TEST(SampleTokenTest, NanIsImpossible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(Sample({-1.0F, nan, nan, nan}, 1.0F, 2, 3, i), 0);
  }
}

// Pearson's chi-square against softmax(logits / T) renormalised over the kept tokens; 5 degrees of
// freedom, 0.1 % significance: 20.5. The seed is fixed, so the test either always passes or never.
TEST(SampleTokenTest, HasTheDistributionOfTheSoftmax) {
  const std::vector<float> logits = {0.5F, -1.0F, 2.0F, 1.0F, 0.0F, -4.0F, 1.5F, -3.0F};
  constexpr float kTemperature = 0.8F;
  constexpr int32_t kKept = 6;  // tokens 5 and 7 are cut
  constexpr int kDraws = 40000;
  std::vector<int> counts(logits.size());
  for (int64_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(Sample(logits, kTemperature, kKept, 11, i))];
  }
  double total = 0.0;
  for (size_t t = 0; t < logits.size(); ++t) {
    if (t != 5 && t != 7) total += std::exp(double{logits[t]} / kTemperature);
  }
  EXPECT_EQ(counts[5], 0);
  EXPECT_EQ(counts[7], 0);
  double chi_square = 0.0;
  for (size_t t = 0; t < logits.size(); ++t) {
    if (t == 5 || t == 7) continue;
    const double expected = kDraws * std::exp(double{logits[t]} / kTemperature) / total;
    chi_square += (counts[t] - expected) * (counts[t] - expected) / expected;
  }
  EXPECT_LT(chi_square, 20.5);
}

}  // namespace
}  // namespace antiphon::kernels
