#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace antiphon::kernels {

Philox PhiloxBlock(uint64_t key, uint64_t counter_lo, uint64_t counter_hi) {
  constexpr uint32_t kMul0 = 0xD2511F53U, kMul1 = 0xCD9E8D57U;
  constexpr uint32_t kWeyl0 = 0x9E3779B9U, kWeyl1 = 0xBB67AE85U;
  uint32_t c[4] = {static_cast<uint32_t>(counter_lo), static_cast<uint32_t>(counter_lo >> 32),
                   static_cast<uint32_t>(counter_hi), static_cast<uint32_t>(counter_hi >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMul0} * c[0], p1 = uint64_t{kMul1} * c[2];
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[1] = static_cast<uint32_t>(p1);
    c[3] = static_cast<uint32_t>(p0);
    c[0] = n0;
    c[2] = n2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

float ExponentialDraw(uint64_t seed, int64_t evaluation, int32_t stream, int32_t rank) {
  const auto lo = static_cast<uint64_t>(evaluation);
  const uint64_t hi = (static_cast<uint64_t>(stream) << 32) | static_cast<uint32_t>(rank / 4);
  const uint32_t bits = PhiloxBlock(seed, lo, hi).v[rank % 4];
  // (bits + 1) / 2^32 lies in (0, 1] and is exact in double.
  return static_cast<float>(-std::log((static_cast<double>(bits) + 1.0) * 0x1p-32));
}

int32_t SampleToken(const float* logits, int32_t n, float temperature, int32_t top_k,
                    Candidate* candidates, const float* noise, uint64_t seed, int64_t evaluation,
                    int32_t stream) {
  int32_t best = 0;
  for (int32_t i = 1; i < n; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  if (temperature <= 0.0F) return best;

  const float peak = logits[best];
  // A NaN (a broken checkpoint) would make the order inconsistent: it counts as impossible.
  for (int32_t i = 0; i < n; ++i) {
    candidates[i] = {std::isnan(logits[i]) ? -std::numeric_limits<float>::infinity() : logits[i],
                     i};
  }
  const int32_t kept = top_k <= 0 ? n : std::min(top_k, n);
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  // Selecting first keeps the sort to the few that are kept.
  if (kept < n) std::nth_element(candidates, candidates + (kept - 1), candidates + n, before);
  std::sort(candidates, candidates + kept, before);

  // p / e needs p only up to a common factor, so the softmax is not normalised.
  float best_ratio = -1.0F;
  int32_t chosen = candidates[0].token;
  for (int32_t rank = 0; rank < kept; ++rank) {
    const float p = std::exp((candidates[rank].weight - peak) / temperature);
    const float e =
        noise != nullptr ? noise[rank] : ExponentialDraw(seed, evaluation, stream, rank);
    const float ratio = p / std::max(e, 1e-30F);
    if (ratio > best_ratio) {
      best_ratio = ratio;
      chosen = candidates[rank].token;
    }
  }
  return chosen;
}

}  // namespace antiphon::kernels
