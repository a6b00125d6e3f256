#include <algorithm>

#include "kernels/cpu/linear_kernel.h"
#include "kernels/cpu/op_shares.h"
#include "kernels/cpu/quantized_linear.h"
#include "kernels/cpu/work_share.h"

namespace antiphon::kernels::cpu {

bool IsQuantized(const PackedWeights& weights, const Op& op) {
  return op.kind == OpKind::kLinear && weights.At(op.weight).quantized();
}

void QuantizeInput(const Run& run, const Op& op, int part, int parts,
                   const QuantizedRows& input) noexcept {
  const QuantFormat format = run.weights.At(op.weight).quant_format();
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    input.Quantize(run.arenas.Row(op.in, rows, r) + t * op.in_step, op.k, op.taps, op.tap_step,
                   format, int64_t{r} * op.steps + t);
  });
}

namespace {

// Shared by panels: each worker reads its own part of the weights once, a stretch of panels that
// fits the second-level cache serving all rows before the next is read.
void QuantizedOp(const Run& run, const Op& op, int part, int parts, const QuantizedRows& input) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const PackedWeight& weight = run.weights.At(op.weight);
  const int64_t tiles = (input.rows() + kQuantTile - 1) / kQuantTile;
  const Share mine = ShareOf((op.n + kPanel - 1) / kPanel, part, parts, 4);
  QuantizedBlock block;
  block.format = weight.quant_format();
  block.panels = weight.data;
  block.blocks = QuantBlocks(op.k);
  block.n = op.n;
  block.bias = run.weights.Vector(op.bias);
  block.scale = run.weights.Vector(op.scale);
  block.activation = op.activation;
  block.accumulate = op.accumulate;
  const int64_t panel_bytes = block.blocks * QuantBlockBytes(block.format);
  const int64_t group = std::max<int64_t>(4, (int64_t{256} << 10) / panel_bytes / 4 * 4);
  for (int64_t first = mine.begin; first < mine.end; first += group) {
    block.panel_begin = static_cast<int32_t>(first);
    block.panel_end = static_cast<int32_t>(std::min(first + group, mine.end));
    for (int64_t tile = 0; tile < tiles; tile += block.second.rows == 0 ? 1 : 2) {
      block.x = input.Tile(tile);
      // Two full tiles go together: then a kernel unpacks the weights once.
      const bool two = (tile + 2) * kQuantTile <= input.rows();
      block.second = two ? input.Tile(tile + 1) : QuantizedTile{};
      for (int32_t i = 0; i < block.x.rows + block.second.rows; ++i) {
        const int64_t v = tile * kQuantTile + i;
        block.y[i] = run.arenas.Row(op.out, rows, static_cast<int32_t>(v / op.steps)) +
                     v % op.steps * op.out_step;
      }
      QuantizedLinear(block);
    }
  }
}

}  // namespace

// Few output channels over many steps (the codec's convolutions) are shared by steps, everything
// else by panels, so that each worker reads its own part of the weights once.
void LinearOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch) {
  if (run.weights.At(op.weight).quantized()) {
    QuantizedOp(run, op, part, parts, scratch.input);
    return;
  }
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const int64_t vectors = int64_t{rows.count} * op.steps;
  const int32_t panels = (op.n + kPanel - 1) / kPanel;
  const bool by_steps = panels < 4 * parts && vectors >= int64_t{kMaxBlock} * parts;
  const Share steps = by_steps ? ShareOf(vectors, part, parts, kMaxBlock) : Share{0, vectors};
  // Four panels are the widest tile of the kernel.
  const Share mine =
      by_steps ? Share{0, panels} : ShareOf(panels, part, parts, panels >= 8 * parts ? 4 : 1);
  if (steps.begin == steps.end || mine.begin == mine.end) return;
  const PackedWeight& weight = run.weights.At(op.weight);
  LinearBlock block;
  block.panels = weight.data;
  block.bf16 = weight.format == WeightFormat::kBf16;
  block.k = op.k;
  block.taps = op.taps;
  block.tap_step = op.tap_step;
  block.n = op.n;
  block.bias = run.weights.Vector(op.bias);
  block.scale = run.weights.Vector(op.scale);
  block.activation = op.activation;
  block.accumulate = op.accumulate;
  // A group of panels that fits the second-level cache serves all rows before the next one is read.
  const int64_t panel_bytes = int64_t{op.k} * kPanel * (block.bf16 ? 2 : 4);
  const int64_t group = std::max<int64_t>(4, (int64_t{256} << 10) / panel_bytes / 4 * 4);
  for (int64_t first = mine.begin; first < mine.end; first += group) {
    block.panel_begin = static_cast<int32_t>(first);
    block.panel_end = static_cast<int32_t>(std::min(first + group, mine.end));
    for (int64_t v = steps.begin; v < steps.end; v += block.rows) {
      // Blocks of equal height, 8 + 8 rather than 12 + 4.
      const int64_t left = steps.end - v, blocks = (left + kMaxBlock - 1) / kMaxBlock;
      block.rows = static_cast<int32_t>((left + blocks - 1) / blocks);
      for (int32_t i = 0; i < block.rows; ++i) {
        const auto r = static_cast<int32_t>((v + i) / op.steps);
        const int64_t t = (v + i) % op.steps;
        block.x[i] = run.arenas.Row(op.in, rows, r) + t * op.in_step;
        block.y[i] = run.arenas.Row(op.out, rows, r) + t * op.out_step;
      }
      Linear(block);
    }
  }
}

}  // namespace antiphon::kernels::cpu
