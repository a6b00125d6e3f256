// Attention over the paged cache against its plain twin, in every format.
#include "kernels/cpu/kv_attention.h"

#include <gtest/gtest.h>

#include "kernels/kv_quant.h"
#include "kernels/reference/kv_store.h"
#include "tests/kernels/op_rig.h"

namespace antiphon::kernels {
namespace {

struct KvCase {
  KvFormat format;
  int heads, kv_heads, head_dim, context;
  Rope rope;
  // Relative to the largest magnitude in memory. Packed formats take the query and the weights as
  // 16 bits (1.5e-5 each), int4 on machines with VNNI as bytes (4e-3 each, of which an average
  // leaves less); rotation in another precision may round a key to the next step of its format, so
  // that those cases do not rotate.
  double tolerance;
};

class KvAttentionTest : public testing::TestWithParam<KvCase> {};

Ref Io(int64_t offset, int64_t stride) { return {Arena::kIo, false, offset, stride}; }

// Two layers that append and attend, over enough positions that pages are sealed in turn and the
// ring wraps.
TEST_P(KvAttentionTest, MatchesReference) {
  const KvCase& c = GetParam();
  constexpr int kRows = 3;
  const int q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, width = q + 2 * kv;
  WeightTable weights;
  Plan plan;
  plan.max_rows = kRows;
  for (int layer = 0; layer < 2; ++layer) {
    Op append;
    append.kind = OpKind::kRopeAppend;
    append.stage = Stage::kStep;
    append.n = append.k = width;
    append.in_step = append.out_step = width;
    append.in = append.out = Io(layer * kRows * (width + q), width);
    append.heads = c.heads;
    append.kv_heads = c.kv_heads;
    append.head_dim = c.head_dim;
    append.rope = c.rope;
    append.weight = weights.Add(RandomWeight("f", WeightKind::kVector, 1, c.head_dim / 2));
    append.kv_layer = layer;
    Op attention = append;
    attention.kind = OpKind::kAttention;
    attention.n = q;
    attention.out_step = q;
    attention.out = Io(layer * kRows * (width + q) + kRows * width, q);
    attention.context = attention.capacity = c.context;
    plan.ops.push_back(append);
    plan.ops.push_back(attention);
  }
  OpRig rig(plan, weights, 1, 2 * kRows * (width + q));
  rig.rows.resize(kRows);
  for (int r = 0; r < kRows; ++r) {
    rig.rows[static_cast<size_t>(r)].slot = (r + 1) % kRows;
  }
  rig.kv.layers = 2;
  rig.kv.kv_heads = c.kv_heads;
  rig.kv.head_dim = c.head_dim;
  rig.kv.slots = kRows;
  rig.kv.slot_pages = KvSlotPages(c.context, 1);
  rig.kv.pages = kRows * rig.kv.slot_pages;
  rig.kv.prompt_pages = 1;
  rig.kv.format = c.format;
  // At the end of every kind of stretch: within the first pages, at the very positions that seal
  // (32 and 48 into the next page), after them, wrapped.
  for (const int runs : {1, 63, 70, 161, 177, 180, 2 * rig.kv.slot_pages * kKvPage + 17}) {
    rig.runs = runs;
    rig.Compare({WeightFormat::kF32, 2, true}, c.tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, KvAttentionTest,
    testing::Values(KvCase{KvFormat::kF32, 4, 4, 64, 150, Rope::kInterleaved, 2e-5},
                    KvCase{KvFormat::kF32, 3, 1, 6, 40, Rope::kConcat, 2e-5},
                    KvCase{KvFormat::kF32, 1, 1, 144, 300, Rope::kNone, 2e-5},
                    KvCase{KvFormat::kBf16, 4, 2, 64, 150, Rope::kNone, 2e-5},
                    KvCase{KvFormat::kBf16, 2, 2, 10, 70, Rope::kNone, 2e-5},
                    KvCase{KvFormat::kInt8, 4, 2, 64, 150, Rope::kNone, 1e-4},
                    KvCase{KvFormat::kInt8, 2, 1, 128, 260, Rope::kNone, 1e-4},
                    KvCase{KvFormat::kInt8, 3, 3, 6, 40, Rope::kNone, 1e-4},
                    KvCase{KvFormat::kInt8, 1, 1, 144, 300, Rope::kNone, 1e-4},
                    KvCase{KvFormat::kInt4, 4, 2, 64, 300, Rope::kNone, 1e-3},
                    KvCase{KvFormat::kInt4, 2, 1, 128, 500, Rope::kNone, 1e-3},
                    KvCase{KvFormat::kInt4, 3, 3, 6, 400, Rope::kNone, 1e-3},
                    KvCase{KvFormat::kInt4, 1, 1, 144, 300, Rope::kNone, 1e-3}));

// The kernels that every machine has, also where AttendPages would choose another, against plain
// attention over the same pages.
TEST(KvKernelsTest, PortableKernelsMatchReference) {
  for (const int32_t head_dim : {6, 16, 64, 128, 136}) {
    KvShape shape;
    shape.layers = shape.kv_heads = shape.slots = 1;
    shape.head_dim = head_dim;
    shape.slot_pages = shape.pages = 6;
    shape.format = KvFormat::kInt4;
    const int32_t table[6] = {3, 1, 5, 0, 2, 4};
    cpu::KvMemory memory(shape);
    reference::KvStore store(shape);
    std::mt19937 random(static_cast<uint32_t>(head_dim));
    std::normal_distribution<float> normal;
    std::vector<float> k(static_cast<size_t>(head_dim)), v(k), q(k), found(k);
    constexpr int64_t kPositions = 5 * kKvPage + 40;
    for (int64_t p = 0; p < kPositions; ++p) {
      for (float& x : k) x = normal(random) + 0.5F;
      for (float& x : v) x = normal(random);
      memory.Append(table, 0, p, 0, k.data(), v.data());
      store.Append(table, 0, p, 0, k.data(), v.data());
    }
    for (float& x : q) x = normal(random);
    constexpr int64_t kBegin = 70;
    std::vector<double> expected(static_cast<size_t>(head_dim));
    double total = 0.0;
    for (int64_t p = kBegin; p < kPositions; ++p) {
      double dot = 0.0;
      for (int32_t i = 0; i < head_dim; ++i) {
        dot += double{q[static_cast<size_t>(i)]} * store.Key(table, 0, p, 0, 0)[i];
      }
      const double weight = std::exp(dot / std::sqrt(double(head_dim)));
      total += weight;
      for (int32_t i = 0; i < head_dim; ++i) {
        expected[static_cast<size_t>(i)] += weight * double{store.Value(table, 0, p, 0, 0)[i]};
      }
    }
    cpu::KvChunk chunks[6];
    int packed = 0;
    for (int64_t page = 1; page < 6; ++page) {
      chunks[page - 1] = memory.Chunk(table, 0, page, kPositions - 1, 0, 0);
      packed += chunks[page - 1].format == KvFormat::kInt4 ? 1 : 0;
    }
    ASSERT_EQ(packed, 4) << "all but the newest page are sealed";
    const cpu::KvView view{chunks, 5, kBegin - kKvPage, kPositions - kKvPage, chunks[0].keys};
    alignas(64) float scores[5 * kKvPage];
    for (const bool portable : {true, false}) {
      cpu::AttendPages(q.data(), head_dim, view, scores, found.data(), portable);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i] / total, portable ? 1e-4 : 1e-2) << head_dim << " " << i;
      }
    }
  }
}

// A scale is rounded once, before anything is measured with it: half a step is the most that a
// value can lose.
TEST(KvQuantTest, LosesAtMostHalfAStep) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    float x[64];
    for (float& value : x) value = normal(random) * std::ldexp(1.0F, round % 40 - 20);
    const Int8Scale int8 = Int8Scale::Of(x, 64);
    const Int4Scale int4 = Int4Scale::Of(x, 64);
    const auto [least, largest] = std::minmax_element(x, x + 64);
    const Int4Channel channel = Int4Channel::Of(*least, *largest);
    for (const float value : x) {
      // The end of the range may lie a rounding of the scale (2^-9) beyond the last level; with
      // Int4Scale the far end has no level of its own.
      EXPECT_LE(std::fabs(int8.value * static_cast<float>(int8.Quantize(value)) - value),
                0.5F * int8.value * 1.01F + std::fabs(value) / 256);
      EXPECT_LE(std::fabs(int4.Value(int4.Quantize(value)) - value),
                1.0F * std::fabs(int4.value) * 1.04F);
      EXPECT_LE(std::fabs(channel.Value(channel.Quantize(value)) - value),
                0.5F * channel.scale * 1.01F + std::fabs(value) / 128);
    }
  }
  const float zeros[4] = {};
  EXPECT_EQ(Int8Scale::Of(zeros, 4).Quantize(0.0F), 0);
  EXPECT_EQ(Int4Scale::Of(zeros, 4).Value(Int4Scale::Of(zeros, 4).Quantize(0.0F)), 0.0F);
  EXPECT_EQ(Int4Channel::Of(0.0F, 0.0F).Value(0), 0.0F);
}

}  // namespace
}  // namespace antiphon::kernels
