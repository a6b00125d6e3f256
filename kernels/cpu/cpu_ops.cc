#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/op_shares.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/work_share.h"
#include "kernels/token_ops.h"

namespace antiphon::kernels::cpu {
namespace {

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

void EmbedOp(const Run& run, const Op& op, int part, int parts) {
  ForRows(run, op, part, parts, [&](const Control::Rows& rows, int32_t r) {
    const int32_t* tokens = run.arenas.Tokens(op.in, rows, r);
    float* out = run.arenas.Row(op.out, rows, r);
    if (!op.accumulate) std::memset(out, 0, static_cast<size_t>(op.n) * sizeof(float));
    for (int32_t table = 0; table < op.count; ++table) {
      const PackedWeight& weight = run.weights.At(op.weight + table);
      const int64_t row = TableRow(op.token_part, tokens[table], weight.rows);
      if (row < 0) continue;
      if (weight.format == WeightFormat::kBf16) {
        AddBf16To(reinterpret_cast<const uint16_t*>(weight.data) + row * weight.cols, out, op.n);
      } else {
        AddTo(reinterpret_cast<const float*>(weight.data) + row * weight.cols, out, op.n);
      }
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
      return LinearOp(run, op, part, parts, scratch);
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
