// Addresses of a run: turns a Ref and a row into a pointer. Shared by the executors whose arenas
// are host memory.
#pragma once

#include "kernels/op.h"

namespace antiphon::kernels {

struct ArenaView {
  float* base[3] = {nullptr, nullptr, nullptr};  // by Arena

  float* Row(const Ref& ref, const Control::Rows& rows, int32_t r) const {
    const int64_t block = ref.per_slot ? rows.rows[r].slot : r;
    return base[static_cast<int>(ref.arena)] + ref.offset + block * ref.row_stride;
  }
  // Tokens are int32 in the same arenas (4-byte elements).
  int32_t* Tokens(const Ref& ref, const Control::Rows& rows, int32_t r) const {
    return reinterpret_cast<int32_t*>(Row(ref, rows, r));
  }
};

// First and one past the last visible position of a query, by the window rule of section 1.2: all
// queries of a call share the lower bound that its newest position sets. `drop_oldest` hides one
// more as soon as the ring is full (section 4.2).
struct Window {
  int64_t begin, end;
};
inline Window VisiblePositions(const Op& op, int64_t first_position, int32_t step) {
  const int64_t total = first_position + (op.per_query ? step + 1 : op.steps);
  int64_t begin = 0;
  if (op.context > 0) {
    begin = total > op.context ? total - op.context : 0;
    if (op.drop_oldest && total >= op.context) begin = total - op.context + 1;
  }
  return {begin, first_position + step + 1};
}

// Position of a row's first step on this op's time axis.
inline int64_t FirstPosition(const Op& op, const Row& row) {
  return op.fixed_position ? op.index : row.position * op.steps;
}

}  // namespace antiphon::kernels
