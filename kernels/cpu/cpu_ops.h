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
  QuantizedRows input = {};         // of the quantized linear op that runs
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

// Whether an op's weights are quantized, so that its input must be: QuantizeInput makes share
// `part` of all its rows, before any share of the op itself runs.
bool IsQuantized(const PackedWeights& weights, const Op& op);
void QuantizeInput(const Run& run, const Op& op, int part, int parts,
                   const QuantizedRows& input) noexcept;

// Rough cost of an op for one row in multiply-adds: decides whether sharing it is worth a barrier.
int64_t OpCost(const Op& op);

}  // namespace antiphon::kernels::cpu
