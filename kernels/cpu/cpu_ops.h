// One op for one worker's share of its rows, steps, heads or channels.
#pragma once

#include "kernels/arena_view.h"
#include "kernels/cpu/kv_memory.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/sampling.h"

namespace antiphon::kernels::cpu {

// A worker's own memory.
struct WorkerScratch {
  float* scores = nullptr;          // as long as the longest ring
  KvChunk* chunks = nullptr;        // as many as a slot has pages
  Candidate* candidates = nullptr;  // as many as the widest logits
};

struct Run {
  const Plan& plan;
  const PackedWeights& weights;
  const ArenaView& arenas;
  const Control& control;
  KvMemory& kv;
};

// Share `part` of `parts`; all parts together are the whole op and none overlaps another.
void RunOp(const Run& run, const Op& op, int part, int parts,
           const WorkerScratch& scratch) noexcept;

// Rough cost of an op for one row in multiply-adds: decides whether sharing it is worth a barrier.
int64_t OpCost(const Op& op);

}  // namespace antiphon::kernels::cpu
