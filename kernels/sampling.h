// Drawing a token from logits (tests/golden/ARCHITECTURE.md 3.5), and the random numbers for it.
#pragma once

#include <cstdint>

namespace antiphon::kernels {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a keyed
// bijection of a counter, so that a draw depends on its coordinates alone and needs no state. The
// engine draws with key = session seed and counter = (evaluation, stream, candidate rank / 4).
struct Philox {
  uint32_t v[4];
};
Philox PhiloxBlock(uint64_t key, uint64_t counter_lo, uint64_t counter_hi);

// Exp(1) draw for a candidate of given rank: -log(u), u uniform in (0, 1].
float ExponentialDraw(uint64_t seed, int64_t evaluation, int32_t stream, int32_t rank);

// Candidates of one draw: probability and token, best first.
struct Candidate {
  float weight;
  int32_t token;
};

// Greedy where temperature <= 0 or n == 0 candidates are kept: argmax, lowest index wins.
// Otherwise: p = softmax(logits / temperature), the min(top_k, n) largest (all where top_k <= 0) in
// descending order (ties: lower index first), token with the largest p / e where e is Exp(1) per
// rank. `candidates`: room for n entries, the caller's scratch. `noise`: the draws e by rank, or
// null to use ExponentialDraw(seed, evaluation, stream, rank).
int32_t SampleToken(const float* logits, int32_t n, float temperature, int32_t top_k,
                    Candidate* candidates, const float* noise, uint64_t seed, int64_t evaluation,
                    int32_t stream);

}  // namespace antiphon::kernels
