// Quantized linear layers: every kernel of this machine against sums in double over the very same
// levels, and the whole op against fp32.
#include "kernels/cpu/quantized_linear.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/op_rig.h"

namespace antiphon::kernels {
namespace {

using cpu::QuantFormat;

// A matrix and inputs of one shape, quantized.
class QuantizedRig {
 public:
  QuantizedRig(QuantFormat format, int32_t n, int32_t k, int32_t rows)
      : format_(format), n_(n), k_(k), rows_(rows), blocks_(cpu::QuantBlocks(k)) {
    const int32_t panels = (n + 15) / 16;
    panels_.resize(static_cast<size_t>(panels * blocks_ * cpu::QuantBlockBytes(format)) + 64);
    std::mt19937 random(static_cast<uint32_t>(n * 131 + k));
    std::normal_distribution<float> normal;
    for (int32_t panel = 0; panel < panels; ++panel) {
      std::vector<float> values(static_cast<size_t>(16 * k));
      for (int32_t i = 0; i < std::min(16, n - 16 * panel) * k; ++i) {
        values[static_cast<size_t>(i)] = normal(random);
      }
      cpu::QuantizePanel(values.data(), k, format, Panel(panel));
    }
    input_.resize(static_cast<size_t>(cpu::QuantizedRows::Bytes(rows, blocks_)) + 64);
    quantized_ = cpu::QuantizedRows(Aligned(input_), rows, blocks_);
    std::vector<float> x(static_cast<size_t>(k));
    for (int32_t r = 0; r < rows; ++r) {
      for (float& value : x) value = normal(random) * static_cast<float>(1 + r);
      quantized_.Quantize(x.data(), k, 1, 0, format, r);
    }
  }

  std::vector<float> Run(const cpu::QuantizedKernel& kernel, bool accumulate) {
    std::vector<float> y(static_cast<size_t>(rows_ * n_) + 1, 1.0F);
    y.back() = 123.0F;  // nothing may touch what is past the end
    cpu::QuantizedBlock block;
    block.format = format_;
    block.panels = Panel(0);
    block.blocks = blocks_;
    block.n = n_;
    block.panel_end = (n_ + 15) / 16;
    block.x = quantized_.Tile(0);
    if (rows_ == 2 * cpu::kQuantTile) block.second = quantized_.Tile(1);
    block.accumulate = accumulate;
    for (int32_t r = 0; r < rows_; ++r) block.y[r] = y.data() + r * n_;
    kernel.run(block);
    EXPECT_EQ(y.back(), 123.0F);
    y.pop_back();
    return y;
  }

  std::vector<double> Expected(bool accumulate) {
    std::vector<double> y;
    for (int32_t r = 0; r < rows_; ++r) {
      for (int32_t c = 0; c < n_; ++c) {
        double sum = accumulate ? 1.0 : 0.0;
        for (int32_t i = 0; i < k_; ++i) {
          const cpu::QuantizedTile tile = quantized_.Tile(r / cpu::kQuantTile);
          const int64_t group = int64_t{i / cpu::kQuantGroup} * tile.rows + r % cpu::kQuantTile;
          const double x = double{tile.scales[group]} *
                           tile.levels[group * cpu::kQuantGroup + i % cpu::kQuantGroup];
          sum += x * double{cpu::QuantizedValue(Panel(c / 16), format_, c % 16, i)};
        }
        y.push_back(sum);
      }
    }
    return y;
  }

 private:
  static std::byte* Aligned(std::vector<std::byte>& memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (64 - address % 64) % 64;
  }
  std::byte* Panel(int32_t panel) {
    return Aligned(panels_) + panel * blocks_ * cpu::QuantBlockBytes(format_);
  }
  QuantFormat format_;
  int32_t n_, k_, rows_, blocks_;
  std::vector<std::byte> panels_, input_;
  cpu::QuantizedRows quantized_;
};

class QuantizedLinearTest
    : public testing::TestWithParam<std::tuple<QuantFormat, std::pair<int, int>, int>> {};

// Integers are exact; floats sum k / 32 products, each rounded once (6e-8).
TEST_P(QuantizedLinearTest, EveryKernelGivesTheSums) {
  const auto [format, shape, rows] = GetParam();
  QuantizedRig rig(format, shape.first, shape.second, rows);
  for (const bool accumulate : {false, true}) {
    const std::vector<double> expected = rig.Expected(accumulate);
    double largest = 1.0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    std::vector<float> first;
    for (const cpu::QuantizedKernel& kernel : cpu::QuantizedKernels()) {
      if (rows > cpu::kQuantTile && !kernel.two_tiles) continue;
      const std::vector<float> found = rig.Run(kernel, accumulate);
      // Sessions must not hear which kernel a batch got. Only the portable one may round otherwise.
      if (std::string(kernel.name) != "portable") {
        if (first.empty()) first = found;
        ASSERT_EQ(found, first) << kernel.name;
      }
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 1e-5 * largest) << kernel.name << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, QuantizedLinearTest,
    testing::Combine(testing::Values(QuantFormat::kInt8, QuantFormat::kInt4),
                     testing::Values(std::pair{16, 64}, std::pair{1, 1}, std::pair{17, 33},
                                     std::pair{100, 130}, std::pair{48, 1024}, std::pair{33, 4096}),
                     testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 32)));

// Whatever was measured, there is a kernel for every number of rows.
TEST(QuantizedChoiceTest, AKernelIsChosenForEveryNumberOfRows) {
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4}) {
    for (const int32_t rows : {1, 2, 8, 16, 32}) {
      EXPECT_NE(cpu::ChosenKernel(format, rows).run, nullptr);
    }
  }
}

// A level is a bf16 scale times an integer; half a step is the most that a weight can lose, but for
// what the search for the best int4 step clips.
TEST(QuantizedFormatTest, WeightsLoseLittle) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(16 * 96);
  for (float& x : rows) x = normal(random);
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4}) {
    alignas(64) std::byte panel[2 * 1088];
    cpu::QuantizePanel(rows.data(), 96, format, panel);
    double lost = 0.0, total = 0.0;
    for (int32_t c = 0; c < 16; ++c) {
      for (int64_t i = 0; i < 96; ++i) {
        const double x = rows[static_cast<size_t>(c * 96 + i)];
        const double error = x - double{cpu::QuantizedValue(panel, format, c, i)};
        lost += error * error;
        total += x * x;
      }
      EXPECT_EQ(cpu::QuantizedValue(panel, format, c, 100), 0.0F) << "padding is zero";
    }
    // Uniform rounding of a normal variable whose 32 values reach about 2.1 deviations: a step of
    // 2.1 / 127 or 2.1 / 7.5 deviations, a twelfth of its square lost.
    EXPECT_LT(lost / total, format == QuantFormat::kInt8 ? 3e-5 : 7.5e-3);
    EXPECT_GT(lost / total, 1e-6);
  }
}

// Groups that have no usable scale become zeros, and their neighbours are unharmed.
TEST(QuantizedFormatTest, OddGroupsBecomeZeros) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4}) {
    std::vector<float> rows(16 * 64, 1.0F);
    for (size_t i = 0; i < 32; ++i) {
      rows[0 * 64 + i] = 0.0F;
      rows[1 * 64 + i] = i == 3 ? 1e-40F : 0.0F;
      rows[2 * 64 + i] = i == 3 ? kInfinity : 1.0F;
      rows[3 * 64 + i] = i == 3 ? kNan : 1.0F;
    }
    alignas(64) std::byte panel[1088];
    cpu::QuantizePanel(rows.data(), 64, format, panel);
    for (int64_t i = 0; i < 64; ++i) {
      for (const int32_t channel : {0, 1, 2}) {
        const float value = cpu::QuantizedValue(panel, format, channel, i);
        EXPECT_NEAR(value, i < 32 ? 0.0F : 1.0F, 0.07F) << channel << " " << i;
      }
      EXPECT_TRUE(std::isfinite(cpu::QuantizedValue(panel, format, 3, i)));
      EXPECT_NEAR(cpu::QuantizedValue(panel, format, 4, i), 1.0F, 0.07F);
    }
  }
}

// The whole op, with bias, activation, scale, taps and accumulation, cut among workers, against
// float32: int8 loses about 2^-8 of a product on each side, int4 an eighth of a step of 16.
TEST(QuantizedOpTest, IsNearFloat32) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int rows : {1, 3, 8, 17, 33}) {
      for (const bool second : {false, true}) {
        constexpr int kIn = 96, kSteps = 2, kTaps = 3;
        const int n = second ? 50 : 256, k = second ? kIn * kTaps : kIn;
        WeightTable weights;
        Op op;
        op.kind = OpKind::kLinear;
        op.stage = Stage::kStep;
        op.steps = kSteps;
        op.n = n;
        op.k = k;
        op.taps = second ? kTaps : 1;
        op.tap_step = second ? 2 * kIn : 0;
        op.in_step = kIn;
        op.out_step = n;
        op.accumulate = second;
        op.activation = second ? Activation::kGelu : Activation::kNone;
        op.weight = weights.Add(RandomWeight("w", WeightKind::kMatrix, n, k));
        if (second) {
          op.bias = weights.Add(RandomWeight("b", WeightKind::kVector, 1, n));
          op.scale = weights.Add(RandomWeight("s", WeightKind::kVector, 1, n));
        }
        const int64_t in = (kSteps + 2 * kTaps) * kIn, out = kSteps * n;
        op.in = {Arena::kIo, false, 0, in};
        op.out = {Arena::kState, false, 0, out};
        Plan plan;
        plan.max_rows = rows;
        plan.ops = {op};
        OpRig rig(plan, weights, rows * out, rows * in);
        rig.rows.resize(static_cast<size_t>(rows));
        rig.Compare({format, 2, true}, format == WeightFormat::kInt8 ? 0.01 : 0.12);
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::kernels
