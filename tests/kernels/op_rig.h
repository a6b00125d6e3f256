// One op, run on two executors over the same random memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/executor.h"

namespace antiphon::kernels {

// Random weights in -1..1; `bf16`: rounded so that bf16 holds them.
inline WeightSpec RandomWeight(const std::string& name, WeightKind kind, int64_t rows, int64_t cols,
                               bool bf16 = false) {
  WeightSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.rows = rows;
  spec.cols = cols;
  spec.bf16 = bf16;
  spec.read = [name, cols, bf16](int64_t begin, int64_t count, float* out) {
    for (int64_t i = 0; i < count * cols; ++i) {
      const auto seed = static_cast<uint32_t>((begin * cols + i) * 2654435761LL +
                                              static_cast<int64_t>(std::hash<std::string>()(name)));
      std::minstd_rand random(seed | 1U);
      random.discard(2);
      const float value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
      out[i] = bf16 ? std::ldexp(std::round(std::ldexp(value, 7)), -7) : value;
    }
  };
  return spec;
}

// Runs `plan` on both executors from the same random state and scratch contents, and compares all
// memory.
class OpRig {
 public:
  OpRig(Plan plan, WeightTable weights, int64_t state, int64_t io)
      : plan_(std::move(plan)), weights_(std::move(weights)), sizes_{state, io} {}

  std::vector<Row> rows;  // of every stage
  int runs = 1;           // each advances the rows' positions
  KvShape kv;             // paged cache; every slot owns pages of all over the pool

  // `tolerance` is relative to the largest magnitude of what the op leaves in memory.
  void Compare(const CpuExecutorOptions& options, double tolerance) {
    const std::unique_ptr<Executor> judge = MakeReferenceExecutor();
    const std::unique_ptr<Executor> cpu = MakeCpuExecutor(options);
    const Memory expected = Run(*judge), found = Run(*cpu);
    CompareArena("state", expected.state, found.state, tolerance);
    CompareArena("io", expected.io, found.io, tolerance);
  }

 private:
  struct Memory {
    std::vector<float> state, io;
  };

  static void Fill(float* data, int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (int64_t i = 0; i < count; ++i) data[i] = uniform(random);
  }

  Memory Run(Executor& executor) {
    sizes_.kv = kv;
    executor.Prepare(weights_, {&plan_}, sizes_);
    Fill(executor.state(), sizes_.state, 1);
    std::vector<Row> now = rows;
    Control control;
    std::vector<int32_t> table(static_cast<size_t>(kv.pages));
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<int32_t>(table.size() - 1 - i);
    }
    std::shuffle(table.begin(), table.end(), std::minstd_rand(3));
    control.kv_pages = table.data();
    for (Control::Rows& stage : control.stages) {
      stage.rows = now.data();
      stage.count = static_cast<int32_t>(now.size());
    }
    for (int run = 0; run < runs; ++run) {
      Fill(executor.io(), sizes_.io, static_cast<uint32_t>(2 + run));
      executor.Run(plan_, control);
      for (Row& row : now) ++row.position;
    }
    return {{executor.state(), executor.state() + sizes_.state},
            {executor.io(), executor.io() + sizes_.io}};
  }

  static void CompareArena(const char* name, const std::vector<float>& expected,
                           const std::vector<float>& found, double tolerance) {
    double largest = 1.0, worst = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::fabs(double{expected[i]}));
      worst = std::max(worst, std::fabs(double{expected[i]} - double{found[i]}));
      ASSERT_TRUE(std::isfinite(found[i])) << name << " " << i;
    }
    EXPECT_LE(worst, tolerance * largest) << name;
  }

  Plan plan_;
  WeightTable weights_;
  ArenaSizes sizes_;
};

}  // namespace antiphon::kernels
