// Attention over pages, one page of one head at a time. The query (and the weights of positions)
// enter packed pages as 16-bit integers, so that what is lost is what the page's own format loses;
// products of 16 by 8 or 4 bits sum in 32 without overflow up to heads of 512. The instruction set
// is chosen at run time.
#pragma once

#include <cstdint>

#include "kernels/cpu/kv_memory.h"
#include "kernels/op.h"

namespace antiphon::kernels::cpu {

// A query of one head, in the forms that the formats read.
struct KvQuery {
  int32_t head_dim = 0;
  alignas(64) float q[kMaxHeadDim + 16];  // times 1 / sqrt(head_dim); zeros up to whole groups
  alignas(64) int16_t packed[kMaxHeadDim + 16];  // q ~ packed * scale
  float scale = 0.0F;
};

// Fills a query from q [head_dim].
void PrepareQuery(const float* q, int32_t head_dim, KvQuery* query) noexcept;

// Bytes between what is read and what is fetched ahead of it: DRAM's latency at a core's bandwidth,
// twice over. `attention_benchmark` measured 36 GB/s of int8 pages on one core of an AMD Zen 5
// whose limit is 37; without fetching, 21.
inline constexpr int64_t kFetchAhead = 8192;

// scores[64] = the query times the page's keys. Meanwhile as many bytes at `ahead` are fetched; any
// address is allowed, also one past the memory's end.
void PageScores(const KvQuery& query, const KvChunk& chunk, const std::byte* ahead,
                float* scores) noexcept;

// scores[begin..end) become exp(score - largest), all others of [0, count) zero; returns their sum.
float SoftmaxWeights(float* scores, int64_t begin, int64_t end, int64_t count) noexcept;

// y[head_dim rounded up to 16] += sum over the page's positions [begin, end) of weights[p] *
// value[p]. weights: [64], zero outside.
void MixPage(const float* weights, int32_t begin, int32_t end, int32_t head_dim,
             const KvChunk& chunk, const std::byte* ahead, float* y) noexcept;

}  // namespace antiphon::kernels::cpu
