// How an op is cut among workers: shares of rows, steps or panels, all known from the row count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/cpu_ops.h"

namespace antiphon::kernels::cpu {

struct Share {
  int64_t begin, end;
};

// The part-th of `parts` nearly equal shares of [0, count), in units of `unit`.
inline Share ShareOf(int64_t count, int part, int parts, int64_t unit = 1) {
  const int64_t units = (count + unit - 1) / unit;
  const int64_t begin = units * part / parts * unit, end = units * (part + 1) / parts * unit;
  return {std::min(begin, count), std::min(end, count)};
}

// Calls body(rows, row, step) for a share of all rows x steps.
template <typename Body>
void ForSteps(const Run& run, const Op& op, int part, int parts, Body body) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const Share share = ShareOf(int64_t{rows.count} * op.steps, part, parts);
  for (int64_t i = share.begin; i < share.end; ++i) {
    body(rows, static_cast<int32_t>(i / op.steps), static_cast<int32_t>(i % op.steps));
  }
}

template <typename Body>
void ForRows(const Run& run, const Op& op, int part, int parts, Body body) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const Share share = ShareOf(rows.count, part, parts);
  for (int64_t r = share.begin; r < share.end; ++r) body(rows, static_cast<int32_t>(r));
}

}  // namespace antiphon::kernels::cpu
