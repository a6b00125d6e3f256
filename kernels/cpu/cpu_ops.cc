#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/linear_kernel.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/token_ops.h"

namespace antiphon::kernels::cpu {
namespace {

struct Share {
  int64_t begin, end;
};

// The part-th of `parts` nearly equal shares of [0, count), in units of `unit`.
Share ShareOf(int64_t count, int part, int parts, int64_t unit = 1) {
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

// Few output channels over many steps (the codec's convolutions) are shared by steps, everything
// else by panels, so that each worker reads its own part of the weights once.
void LinearOp(const Run& run, const Op& op, int part, int parts) {
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
  block.bf16 = weight.bf16;
  block.k = op.k;
  block.taps = op.taps;
  block.tap_step = op.tap_step;
  block.n = op.n;
  block.bias = run.weights.Vector(op.bias);
  block.scale = run.weights.Vector(op.scale);
  block.activation = op.activation;
  block.accumulate = op.accumulate;
  // A group of panels that fits the second-level cache serves all rows before the next one is read.
  const int64_t panel_bytes = int64_t{op.k} * kPanel * (weight.bf16 ? 2 : 4);
  const int64_t group = std::max<int64_t>(4, (int64_t{256} << 10) / panel_bytes / 4 * 4);
  for (int64_t first = mine.begin; first < mine.end; first += group) {
    block.panel_begin = static_cast<int32_t>(first);
    block.panel_end = static_cast<int32_t>(std::min(first + group, mine.end));
    for (int64_t v = steps.begin; v < steps.end; v += block.rows) {
      block.rows = static_cast<int32_t>(std::min<int64_t>(kMaxBlock, steps.end - v));
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

void NormOp(const Run& run, const Op& op, int part, int parts) {
  const float* weight = run.weights.Vector(op.weight);
  const float* bias = run.weights.Vector(op.bias);
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    Normalize(op.norm, op.eps, weight, bias, run.arenas.Row(op.in, rows, r) + t * op.in_step,
              run.arenas.Row(op.out, rows, r) + t * op.out_step, op.n);
  });
}

void ActivationOp(const Run& run, const Op& op, int part, int parts) {
  // Dense views are one long vector.
  if (op.in_step == op.n && op.out_step == op.n) {
    const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
    for (int32_t r = 0; r < rows.count; ++r) {
      const Share share = ShareOf(int64_t{op.steps} * op.n, part, parts, 64);
      ActivateVector(op.activation, run.arenas.Row(op.in, rows, r) + share.begin,
                     run.arenas.Row(op.out, rows, r) + share.begin, share.end - share.begin);
    }
    return;
  }
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    ActivateVector(op.activation, run.arenas.Row(op.in, rows, r) + t * op.in_step,
                   run.arenas.Row(op.out, rows, r) + t * op.out_step, op.n);
  });
}

void GateOp(const Run& run, const Op& op, int part, int parts) {
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    GateVector(op.activation, run.arenas.Row(op.in, rows, r) + t * op.in_step,
               run.arenas.Row(op.out, rows, r) + t * op.out_step, op.n);
  });
}

void WindowOp(const Run& run, const Op& op, int part, int parts) {
  const auto width = static_cast<size_t>(op.n);
  const size_t history = static_cast<size_t>(op.pad) * width;
  const size_t fresh = static_cast<size_t>(op.steps) * width;
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    float* tail = run.arenas.Row(op.in, rows, r);
    float* window = run.arenas.Row(op.out, rows, r);
    if (rows.rows[r].position > 0) {
      std::memcpy(window, tail, history * sizeof(float));
    } else if (op.replicate) {
      for (size_t p = 0; p < static_cast<size_t>(op.pad); ++p) {
        std::memcpy(window + p * width, window + history, width * sizeof(float));
      }
    } else {
      std::memset(window, 0, history * sizeof(float));
    }
    std::memcpy(tail, window + fresh, history * sizeof(float));
  });
}

void UpsampleOp(const Run& run, const Op& op, int part, int parts) {
  const float* w = run.weights.Vector(op.weight);
  const int32_t history = op.k / op.stride - 1;
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    const float* in = run.arenas.Row(op.in, rows, r) + (t + history) * op.in_step;
    float* out = run.arenas.Row(op.out, rows, r) + int64_t{t} * op.stride * op.out_step;
    for (int32_t j = 0; j < op.stride; ++j) {
      for (int32_t c = 0; c < op.n; ++c) {
        const float* taps = w + int64_t{c} * op.k + j;
        float sum = 0.0F;
        for (int32_t m = 0; m <= history; ++m) {
          sum += taps[m * op.stride] * in[c - m * op.in_step];
        }
        out[j * op.out_step + c] = sum;
      }
    }
  });
}

// cos and sin of a step's angles are shared by all its heads.
void RopeAppendOp(const Run& run, const Op& op, int part, int parts) {
  const float* frequencies = run.weights.Vector(op.weight);
  const int32_t half = op.head_dim / 2;
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    const int64_t p = FirstPosition(op, rows.rows[r]) + t;
    float* q = run.arenas.Row(op.in, rows, r) + t * op.in_step;
    float* k = q + op.heads * op.head_dim;
    const float* v = k + op.kv_heads * op.head_dim;
    if (op.rope != Rope::kNone) {
      const int32_t stride = op.rope == Rope::kInterleaved ? 2 : 1;
      const int32_t imaginary = op.rope == Rope::kInterleaved ? 1 : half;
      for (int32_t j = 0; j < half; ++j) {
        const float angle = frequencies[j] * static_cast<float>(p);
        const auto c = static_cast<float>(std::cos(double{angle}));
        const auto s = static_cast<float>(std::sin(double{angle}));
        // q and k heads follow each other.
        for (int32_t h = 0; h < op.heads + op.kv_heads; ++h) {
          float& re = q[h * op.head_dim + j * stride];
          float& im = q[h * op.head_dim + j * stride + imaginary];
          const float a = re, b = im;
          re = a * c - b * s;
          im = a * s + b * c;
        }
      }
    }
    float* keys = run.arenas.Row(op.aux, rows, r);
    float* values = run.arenas.Row(op.aux2, rows, r);
    const size_t bytes = static_cast<size_t>(op.head_dim) * sizeof(float);
    for (int32_t h = 0; h < op.kv_heads; ++h) {
      const int64_t at = (int64_t{h} * op.capacity + p % op.capacity) * op.head_dim;
      std::memcpy(keys + at, k + h * op.head_dim, bytes);
      std::memcpy(values + at, v + h * op.head_dim, bytes);
    }
  });
}

void AttentionOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const int32_t group = op.heads / op.kv_heads;
  const int64_t queries = int64_t{rows.count} * op.steps * op.heads;
  const Share share = ShareOf(queries, part, parts);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const auto h = static_cast<int32_t>(i % op.heads);
    const auto t = static_cast<int32_t>(i / op.heads % op.steps);
    const auto r = static_cast<int32_t>(i / op.heads / op.steps);
    const Window window = VisiblePositions(op, FirstPosition(op, rows.rows[r]), t);
    const int64_t head = int64_t{h / group} * op.capacity * op.head_dim;
    AttendHead(run.arenas.Row(op.in, rows, r) + t * op.in_step + h * op.head_dim,
               run.arenas.Row(op.aux, rows, r) + head, run.arenas.Row(op.aux2, rows, r) + head,
               window.begin, window.end, op.capacity, op.head_dim, scratch.scores,
               run.arenas.Row(op.out, rows, r) + t * op.out_step + h * op.head_dim);
  }
}

void EmbedOp(const Run& run, const Op& op, int part, int parts) {
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    const int32_t* tokens = run.arenas.Tokens(op.in, rows, r);
    float* out = run.arenas.Row(op.out, rows, r);
    if (!op.accumulate) std::memset(out, 0, static_cast<size_t>(op.n) * sizeof(float));
    for (int32_t table = 0; table < op.count; ++table) {
      const PackedWeight& weight = run.weights.At(op.weight + table);
      const int64_t row = TableRow(op.token_part, tokens[table], weight.rows);
      if (row < 0) continue;
      AddTo(reinterpret_cast<const float*>(weight.data) + row * weight.cols, out, op.n);
    }
  });
}

void SinPositionOp(const Run& run, const Op& op, int part, int parts) {
  const int32_t half = op.n / 2;
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    float* out = run.arenas.Row(op.out, rows, r);
    const auto p = static_cast<double>(FirstPosition(op, rows.rows[r]));
    for (int32_t i = 0; i < half; ++i) {
      const double angle = p / std::pow(double{op.max_period}, double(i) / (half - 1));
      out[i] += static_cast<float>(std::cos(angle));
      out[half + i] += static_cast<float>(std::sin(angle));
    }
  });
}

void AddVectorOp(const Run& run, const Op& op, int part, int parts) {
  const float* vector = run.weights.Vector(op.weight);
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    AddTo(vector, run.arenas.Row(op.out, rows, r) + t * op.out_step, op.n);
  });
}

void InjectOp(const Run& run, const Op& op, int part, int parts) {
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    if (!rows.rows[r].use_embedding) return;
    std::memcpy(run.arenas.Row(op.out, rows, r), run.arenas.Row(op.in, rows, r),
                static_cast<size_t>(op.n) * sizeof(float));
  });
}

void SampleOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch) {
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    SampleRow(run.plan.tokens, op, run.arenas, rows, r, scratch.candidates);
  });
}

void RvqPickOp(const Run& run, const Op& op, int part, int parts) {
  const PackedWeight& table = run.weights.At(op.weight);
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    const int32_t best = ArgMax(run.arenas.Row(op.in, rows, r), op.n);
    run.arenas.Tokens(op.out, rows, r)[op.index] = best;
    SubtractFrom(reinterpret_cast<const float*>(table.data) + best * table.cols,
                 run.arenas.Row(op.aux, rows, r), op.k);
  });
}

}  // namespace

void RunOp(const Run& run, const Op& op, int part, int parts,
           const WorkerScratch& scratch) noexcept {
  switch (op.kind) {
    case OpKind::kLinear:
      return LinearOp(run, op, part, parts);
    case OpKind::kNorm:
      return NormOp(run, op, part, parts);
    case OpKind::kActivation:
      return ActivationOp(run, op, part, parts);
    case OpKind::kGate:
      return GateOp(run, op, part, parts);
    case OpKind::kWindow:
      return WindowOp(run, op, part, parts);
    case OpKind::kUpsample:
      return UpsampleOp(run, op, part, parts);
    case OpKind::kRopeAppend:
      return RopeAppendOp(run, op, part, parts);
    case OpKind::kAttention:
      return AttentionOp(run, op, part, parts, scratch);
    case OpKind::kEmbed:
      return EmbedOp(run, op, part, parts);
    case OpKind::kSinPosition:
      return SinPositionOp(run, op, part, parts);
    case OpKind::kAddVector:
      return AddVectorOp(run, op, part, parts);
    case OpKind::kInject:
      return InjectOp(run, op, part, parts);
    case OpKind::kSample:
      return SampleOp(run, op, part, parts, scratch);
    case OpKind::kRvqPick:
      return RvqPickOp(run, op, part, parts);
    // Token timelines are order-dependent and tiny: the first worker does them whole.
    case OpKind::kTokensIn:
      if (part == 0) TokensInRows(run.plan.tokens, op, run.arenas, run.control);
      return;
    case OpKind::kTokensOut:
      if (part == 0) TokensOutRows(run.plan.tokens, op, run.arenas, run.control);
      return;
  }
}

int64_t OpCost(const Op& op) {
  const int64_t elements = int64_t{op.steps} * op.n;
  switch (op.kind) {
    case OpKind::kLinear:
      return elements * op.k;
    case OpKind::kAttention:
      return int64_t{op.steps} * op.heads * op.head_dim * 2 *
             (op.context > 0 ? op.context : op.capacity);
    case OpKind::kActivation:
      return elements * (op.activation == Activation::kNone ? 1 : 16);
    case OpKind::kGate:
      return elements * 16;
    case OpKind::kSample:
      return elements * 8;
    case OpKind::kUpsample:
      return elements * op.k;
    case OpKind::kTokensIn:
    case OpKind::kTokensOut:
      return 0;
    default:
      return elements * 2;
  }
}

}  // namespace antiphon::kernels::cpu
