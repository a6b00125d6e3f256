// The cpu executor's ops against the reference's.
//
// Tolerance: sums of k products in float32 in another order than in double differ by about
// sqrt(k) * 6e-8 of their terms, activations by 2e-6; 2e-5 of the largest value holds for all
// shapes here and fails for a wrong lane, tap or row by orders of magnitude.
#include <gtest/gtest.h>

#include "tests/kernels/op_rig.h"

namespace antiphon::kernels {
namespace {

constexpr double kTolerance = 2e-5;

Ref Io(int64_t offset, int64_t row_stride) { return {Arena::kIo, false, offset, row_stride}; }
Ref State(int64_t offset, int64_t row_stride) { return {Arena::kState, true, offset, row_stride}; }

std::vector<Row> Rows(int count, int64_t position = 0) {
  std::vector<Row> rows(static_cast<size_t>(count));
  // Slots in another order than rows.
  for (int r = 0; r < count; ++r) {
    rows[static_cast<size_t>(r)].slot = count - 1 - r;
    rows[static_cast<size_t>(r)].position = position + 3 * r;
  }
  return rows;
}

struct LinearCase {
  int rows, steps, n, k, taps;
  bool bias, scale, accumulate, bf16;
  Activation activation;
};

class LinearTest : public testing::TestWithParam<LinearCase> {};

TEST_P(LinearTest, MatchesReference) {
  const LinearCase& c = GetParam();
  for (const int threads : {1, 2, 3}) {
    WeightTable weights;
    Op op;
    op.kind = OpKind::kLinear;
    op.stage = Stage::kStep;
    op.steps = c.steps;
    op.n = c.n;
    op.k = c.k;
    op.taps = c.taps;
    op.tap_step = 2 * (c.k / c.taps);
    op.in_step = c.k / c.taps + 1;
    op.out_step = c.n + 2;
    const int64_t in_row = c.steps * op.in_step + c.taps * op.tap_step + c.k;
    const int64_t out_row = c.steps * op.out_step;
    op.in = Io(0, in_row);
    op.out = Io(in_row * c.rows, out_row);
    op.weight = weights.Add(RandomWeight("w", WeightKind::kMatrix, c.n, c.k, c.bf16));
    if (c.bias) op.bias = weights.Add(RandomWeight("b", WeightKind::kVector, 1, c.n));
    if (c.scale) op.scale = weights.Add(RandomWeight("s", WeightKind::kVector, 1, c.n));
    op.accumulate = c.accumulate;
    op.activation = c.activation;
    Plan plan;
    plan.max_rows = c.rows;
    plan.ops = {op};
    OpRig rig(plan, weights, 1, (in_row + out_row) * c.rows);
    rig.rows = Rows(c.rows);
    rig.Compare({c.bf16 ? WeightFormat::kBf16 : WeightFormat::kF32, threads, true}, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearTest,
    testing::Values(LinearCase{1, 1, 1, 1, 1, false, false, false, false, Activation::kNone},
                    LinearCase{1, 1, 48, 66, 1, true, false, false, false, Activation::kGelu},
                    LinearCase{1, 1, 257, 129, 1, false, false, true, true, Activation::kNone},
                    LinearCase{1, 1, 1024, 512, 1, false, true, true, false, Activation::kNone},
                    LinearCase{2, 3, 33, 17, 1, true, true, false, false, Activation::kElu},
                    LinearCase{3, 1, 640, 96, 1, false, false, false, true, Activation::kSilu},
                    LinearCase{4, 7, 16, 7, 1, true, false, false, false, Activation::kNone},
                    LinearCase{5, 2, 31, 64, 1, false, false, true, false, Activation::kRelu},
                    LinearCase{7, 1, 65, 40, 1, true, false, false, true, Activation::kSigmoid},
                    LinearCase{8, 1, 512, 256, 1, false, false, false, false, Activation::kTanh},
                    LinearCase{1, 1920, 1, 21, 1, true, false, false, false, Activation::kNone},
                    LinearCase{2, 480, 24, 48, 3, true, false, false, false, Activation::kElu},
                    LinearCase{3, 9, 18, 30, 5, false, false, false, true, Activation::kNone},
                    LinearCase{33, 1, 100, 50, 1, true, true, true, false, Activation::kGelu}));

// Norm, activation and gate on odd widths.
TEST(ElementwiseOps, MatchReference) {
  for (const int n : {1, 2, 15, 16, 17, 64, 100, 513}) {
    for (const OpKind kind : {OpKind::kNorm, OpKind::kActivation, OpKind::kGate}) {
      for (const bool second : {false, true}) {
        WeightTable weights;
        Op op;
        op.kind = kind;
        op.stage = Stage::kEncode;
        op.steps = 3;
        op.n = n;
        op.in_step = 2 * n + 1;
        op.out_step = second ? n : n + 3;
        op.norm = second ? Norm::kLayer : Norm::kRms;
        op.eps = 1e-5F;
        op.activation = second ? Activation::kElu : Activation::kSilu;
        op.weight = weights.Add(RandomWeight("w", WeightKind::kVector, 1, n));
        if (second) op.bias = weights.Add(RandomWeight("b", WeightKind::kVector, 1, n));
        op.in = Io(0, 3 * op.in_step);
        op.out = Io(5 * 3 * op.in_step, 3 * op.out_step);
        Plan plan;
        plan.max_rows = 5;
        plan.ops = {op};
        OpRig rig(plan, weights, 1, 5 * 3 * (op.in_step + op.out_step));
        rig.rows = Rows(5);
        rig.Compare({WeightFormat::kF32, 2, true}, 5e-5);
      }
    }
  }
}

struct AttentionCase {
  int heads, kv_heads, head_dim, steps, context, capacity;
  bool drop_oldest, per_query, fixed;
  Rope rope;
};

class AttentionTest : public testing::TestWithParam<AttentionCase> {};

// Rotation, append and attention over many runs, so that the ring wraps several times.
TEST_P(AttentionTest, MatchesReference) {
  const AttentionCase& c = GetParam();
  constexpr int kRows = 3;
  const int q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  WeightTable weights;
  Op append;
  append.kind = OpKind::kRopeAppend;
  append.stage = Stage::kDecode;
  append.steps = c.steps;
  append.n = q + 2 * kv;
  append.in_step = append.out_step = q + 2 * kv;
  append.in = append.out = Io(0, c.steps * append.in_step);
  append.heads = c.heads;
  append.kv_heads = c.kv_heads;
  append.head_dim = c.head_dim;
  append.capacity = c.capacity;
  append.rope = c.rope;
  append.fixed_position = c.fixed;
  append.index = 2;
  append.weight = weights.Add(RandomWeight("f", WeightKind::kVector, 1, c.head_dim / 2));
  const int64_t ring = int64_t{kv} * c.capacity;
  append.aux = State(0, ring);
  append.aux2 = State(kRows * ring, ring);
  Op attention = append;
  attention.kind = OpKind::kAttention;
  attention.n = q;
  attention.out_step = q;
  attention.out = Io(kRows * c.steps * append.in_step, c.steps * q);
  attention.context = c.context;
  attention.drop_oldest = c.drop_oldest;
  attention.per_query = c.per_query;
  Plan plan;
  plan.max_rows = kRows;
  plan.ops = {append, attention};
  OpRig rig(plan, weights, 2 * kRows * ring, kRows * c.steps * (append.in_step + q));
  rig.rows = Rows(kRows);
  rig.runs = c.fixed ? 1 : 3 * c.capacity / c.steps + 1;
  rig.Compare({WeightFormat::kF32, 2, true}, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Windows, AttentionTest,
    testing::Values(AttentionCase{2, 2, 8, 1, 12, 12, false, false, false, Rope::kInterleaved},
                    AttentionCase{4, 2, 10, 1, 7, 22, false, false, false, Rope::kConcat},
                    AttentionCase{4, 1, 64, 2, 10, 10, false, false, false, Rope::kInterleaved},
                    AttentionCase{1, 1, 18, 2, 10, 11, false, true, false, Rope::kInterleaved},
                    AttentionCase{3, 3, 16, 1, 9, 9, true, false, false, Rope::kNone},
                    AttentionCase{2, 2, 34, 2, 8, 8, true, false, false, Rope::kInterleaved},
                    AttentionCase{2, 2, 16, 1, 0, 8, false, false, true, Rope::kNone}));

TEST(WindowOp, ShiftsHistoryOverRuns) {
  for (const bool replicate : {false, true}) {
    for (const int pad : {1, 2, 6}) {
      for (const int steps : {1, 2, 5}) {
        Op op;
        op.kind = OpKind::kWindow;
        op.stage = Stage::kEncode;
        op.n = 9;
        op.pad = pad;
        op.steps = steps;
        op.replicate = replicate;
        op.in = State(0, pad * 9);
        op.out = Io(0, (pad + steps) * 9);
        Plan plan;
        plan.max_rows = 4;
        plan.ops = {op};
        OpRig rig(plan, {}, 4 * pad * 9, 4 * (pad + steps) * 9);
        rig.rows = Rows(4);
        rig.runs = 4;
        rig.Compare({WeightFormat::kF32, 2, true}, 0.0);
      }
    }
  }
}

TEST(UpsampleOp, MatchesReference) {
  for (const int kernel : {2, 4, 6}) {
    WeightTable weights;
    Op op;
    op.kind = OpKind::kUpsample;
    op.stage = Stage::kDecode;
    op.steps = 3;
    op.n = 21;
    op.k = kernel;
    op.stride = 2;
    op.in_step = op.out_step = 21;
    op.weight = weights.Add(RandomWeight("w", WeightKind::kTable, 21, kernel));
    const int64_t in_row = (3 + kernel / 2 - 1) * 21, out_row = 6 * 21;
    op.in = Io(0, in_row);
    op.out = Io(2 * in_row, out_row);
    Plan plan;
    plan.max_rows = 2;
    plan.ops = {op};
    OpRig rig(plan, weights, 1, 2 * (in_row + out_row));
    rig.rows = Rows(2);
    rig.Compare({WeightFormat::kF32, 2, true}, kTolerance);
  }
}

}  // namespace
}  // namespace antiphon::kernels
