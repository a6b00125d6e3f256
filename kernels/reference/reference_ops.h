// The plain twin of every op: simple loops in double, to be read and trusted. Each function
// computes one op for all rows of its stage.
#pragma once

#include <vector>

#include "kernels/arena_view.h"
#include "kernels/plan.h"
#include "kernels/reference/kv_store.h"
#include "kernels/sampling.h"
#include "kernels/token_ops.h"

namespace antiphon::kernels::reference {

// Weights as the reference keeps them: float32, row-major, by index of the weight table.
struct Weights {
  struct Entry {
    std::vector<float> data;
    int64_t rows = 0;
    int64_t cols = 0;
  };
  std::vector<Entry> entries;
  // Null where index is kNoWeight.
  const float* Data(int32_t index) const {
    return index == kNoWeight ? nullptr : entries[static_cast<size_t>(index)].data.data();
  }
  const Entry& At(int32_t index) const { return entries[static_cast<size_t>(index)]; }
};

struct Run {
  const Plan& plan;
  const Weights& weights;
  const ArenaView& arenas;
  const Control& control;
  KvStore& kv;
  Candidate* candidates;  // room for the widest logits
};

void RunOp(const Run& run, const Op& op) noexcept;

double Activate(Activation activation, double x) noexcept;

}  // namespace antiphon::kernels::reference
