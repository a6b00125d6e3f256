// Linear layers as a tick runs them: one executor, its pinned workers and barriers, matrices of
// 4096 x 11264 one after another, in all more than 1 GB, so that every weight comes from memory.
// For each format and batch: GB/s of weights, their share of the read bandwidth measured in the
// same run, and the time as a multiple of batch 1.
//
//   linear_benchmark [threads] [int4|int8|bf16]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu/bandwidth_probe.h"
#include "kernels/executor.h"

namespace antiphon::kernels {
namespace {

constexpr int32_t kOut = 4096, kIn = 11264;
constexpr int64_t kBytes = int64_t{1} << 30;

WeightSpec Matrix(int index) {
  WeightSpec spec;
  spec.name = "w" + std::to_string(index);
  spec.kind = WeightKind::kMatrix;
  spec.rows = kOut;
  spec.cols = kIn;
  spec.bf16 = true;
  spec.read = [](int64_t begin, int64_t count, float* out) {
    auto seed = static_cast<uint32_t>(begin * 2654435761LL + 1);
    for (int64_t i = 0; i < count * kIn; ++i) {
      seed = seed * 1664525U + 1013904223U;
      out[i] = static_cast<float>(static_cast<int32_t>(seed) >> 8) * 0x1p-26F;
    }
  };
  return spec;
}

// Best time of a pass over all matrices, in seconds per matrix.
double Measure(Executor& executor, const Plan& plan, int32_t rows) {
  std::vector<Row> row_list(static_cast<size_t>(rows));
  Control control;
  Control::Rows& stage = control.stages[static_cast<int>(Stage::kStep)];
  stage.count = rows;
  stage.rows = row_list.data();
  double best = 1e9;
  for (int pass = 0; pass < 6; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    executor.Run(plan, control);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / static_cast<double>(plan.ops.size()));
  }
  return best;
}

void Format(const char* name, WeightFormat format, double bits, int threads, double bandwidth) {
  const double matrix_bytes = double{kOut} * kIn * bits / 8;
  const int matrices = static_cast<int>(static_cast<double>(kBytes) / matrix_bytes) + 1;
  constexpr int32_t kRows = 32;
  WeightTable weights;
  Plan plan;
  plan.max_rows = kRows;
  for (int i = 0; i < matrices; ++i) {
    Op op;
    op.kind = OpKind::kLinear;
    op.stage = Stage::kStep;
    op.n = kOut;
    op.k = kIn;
    op.in_step = kIn;
    op.out_step = kOut;
    op.in = {Arena::kIo, false, 0, kIn};
    op.out = {Arena::kState, false, 0, kOut};
    op.weight = weights.Add(Matrix(i));
    plan.ops.push_back(op);
  }
  const auto executor = MakeCpuExecutor({format, threads, true});
  executor->Prepare(weights, {&plan}, {int64_t{kRows} * kOut, int64_t{kRows} * kIn, {}});
  for (int64_t i = 0; i < int64_t{kRows} * kIn; ++i) {
    executor->io()[i] = static_cast<float>(i % 17) - 8.0F;
  }
  double one = 0.0;
  for (const int32_t rows : {1, 2, 4, 8, 16, 32}) {
    const double seconds = Measure(*executor, plan, rows);
    if (rows == 1) one = seconds;
    const double gmacs = double{kOut} * kIn * rows / seconds * 1e-9;
    std::printf("%-5s %5d %9.3f %8.1f %7.0f %% %10.0f %8.2f\n", name, rows, seconds * 1e3,
                matrix_bytes / seconds * 1e-9, 100.0 * matrix_bytes / seconds / bandwidth, gmacs,
                seconds / one);
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const double bandwidth = cpu::MeasureReadBandwidth(threads);
  std::printf("%d threads, read bandwidth %.1f GB/s, linear %d x %d\n", threads, bandwidth * 1e-9,
              kOut, kIn);
  std::printf("%-5s %5s %9s %8s %9s %10s %8s\n", "", "batch", "ms", "GB/s", "of read", "GMAC/s",
              "x batch 1");
  const std::string only = argc > 2 ? argv[2] : "";
  struct {
    const char* name;
    WeightFormat format;
    double bits;  // a weight: its level, and a bf16 scale for 32
  } const formats[] = {{"int4", WeightFormat::kInt4, 4.5},
                       {"int8", WeightFormat::kInt8, 8.5},
                       {"bf16", WeightFormat::kBf16, 16.0}};
  for (const auto& format : formats) {
    if (!only.empty() && only != format.name) continue;
    Format(format.name, format.format, format.bits, threads, bandwidth);
  }
  return 0;
}

}  // namespace
}  // namespace antiphon::kernels

int main(int argc, char** argv) { return antiphon::kernels::Main(argc, argv); }
