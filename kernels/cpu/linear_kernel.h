// y = act(W x + b) for blocks of output channels: the kernel nearly all time goes to.
//
// Weights lie in panels of 16 output channels, [panel, k, 16], so that a step of the inner loop is
// one aligned load of weights, one broadcast of x and one FMA per row, with no horizontal sums, for
// one row as for many. One row is bound by reading the weights; from about 8 rows on by FMAs. The
// instruction set is chosen at run time (Highway).
#pragma once

#include <cstdint>

#include "kernels/op.h"

namespace antiphon::kernels::cpu {

inline constexpr int32_t kPanel = 16;  // output channels of a panel
// x vectors of one call; more gain nothing, since the accumulators fill the registers.
inline constexpr int32_t kMaxBlock = 12;

struct LinearBlock {
  const void* panels = nullptr;  // [panels, k, kPanel], float or bf16, 64-byte aligned
  bool bf16 = false;
  int32_t k = 0;
  int32_t taps = 1;  // x is `taps` pieces of k / taps elements, tap_step apart
  int64_t tap_step = 0;
  int32_t n = 0;  // output channels in all (the last panel may be partial)
  int32_t panel_begin = 0, panel_end = 0;
  int32_t rows = 0;                // 1..kMaxBlock
  const float* x[kMaxBlock] = {};  // [k]
  float* y[kMaxBlock] = {};        // [n]
  const float* bias = nullptr;     // [n] or null
  const float* scale = nullptr;    // [n] or null
  Activation activation = Activation::kNone;
  bool accumulate = false;
};

// Computes panels [panel_begin, panel_end) for the block's rows.
void Linear(const LinearBlock& block) noexcept;

// Name of the instruction set in use, e.g. "AVX3".
const char* TargetName();

}  // namespace antiphon::kernels::cpu
