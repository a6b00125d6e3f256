// y = act(W x + b) with int8 or int4 weights and int8 inputs: dot products of a group in 32-bit
// integers, groups summed in float. One row is bound by reading the weights, about 0.56 bytes each
// for int4; many rows by the integer multipliers, since a tile of rows shares the unpacked weights.
// A kernel per instruction set, chosen at run time; each computes the same sums, in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/quantized_format.h"
#include "kernels/op.h"

namespace antiphon::kernels::cpu {

struct QuantizedBlock {
  QuantFormat format = QuantFormat::kInt4;
  const std::byte* panels = nullptr;  // [panels] of `blocks` blocks, 64-byte aligned
  int32_t blocks = 0;
  int32_t n = 0;  // output channels in all (the last panel may be partial)
  int32_t panel_begin = 0, panel_end = 0;
  QuantizedTile x;
  QuantizedTile second;           // a tile more, if it has rows; then both are full
  float* y[2 * kQuantTile] = {};  // [n] each, the second tile's from kQuantTile on
  const float* bias = nullptr;    // [n] or null
  const float* scale = nullptr;   // [n] or null
  Activation activation = Activation::kNone;
  bool accumulate = false;
};

// Computes panels [panel_begin, panel_end) for the tiles' rows, with the kernel that is the fastest
// here for their number. The x86 kernels give the same sums bit for bit; the portable one, which is
// never chosen beside them on a machine that has AVX2, may round a product differently.
void QuantizedLinear(const QuantizedBlock& block) noexcept;

// A kernel by name, as tests and benchmarks compare them.
struct QuantizedKernel {
  const char* name;
  void (*run)(const QuantizedBlock& block) noexcept;
  bool two_tiles = false;  // takes a second tile
};
// Those that this machine can run, from the plainest on.
const std::vector<QuantizedKernel>& QuantizedKernels();

// Measures every kernel at every number of rows, once in a process (some milliseconds). Executors
// that hold quantized weights call it before their first run.
void ChooseQuantizedKernels();

// The kernel chosen for 1..kQuantTile rows, or for two tiles of kQuantTile.
const QuantizedKernel& ChosenKernel(QuantFormat format, int32_t rows);

// The end of a panel for one row: sums [16] to y with bias, activation, scale and accumulation.
void FinishPanel(const QuantizedBlock& block, int32_t panel, const float* sums, float* y) noexcept;

}  // namespace antiphon::kernels::cpu
