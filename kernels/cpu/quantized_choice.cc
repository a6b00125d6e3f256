// Which quantized kernel for how many rows: measured, since what pays differs between machines
// (VNNI beats AMX at one row and loses at sixteen; how far, depends on both units).
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/quantized_linear.h"

namespace antiphon::kernels::cpu {
namespace {

// Weights that stay in the second-level cache: what is compared is the arithmetic, all read memory
// alike.
constexpr int32_t kPanels = 8, kBlocks = 16;
constexpr int32_t kChannels = 16;
constexpr int kRuns = 5;

// A later kernel has to be faster by this much.
constexpr double kMargin = 0.97;

// [format][rows - 1], and two tiles last.
using Choice = std::array<std::array<const QuantizedKernel*, kQuantTile + 1>, 2>;

// One matrix and its inputs.
class Trial {
 public:
  Trial(QuantFormat format, int32_t rows)
      : weights_(static_cast<size_t>(kPanels * kBlocks * QuantBlockBytes(format))),
        input_(static_cast<size_t>(QuantizedRows::Bytes(rows, kBlocks))),
        out_(static_cast<size_t>(rows * kPanels * kChannels) * sizeof(float)) {
    const QuantizedRows x(input_.data(), rows, kBlocks);
    block_.format = format;
    block_.panels = weights_.data();
    block_.blocks = kBlocks;
    block_.n = kPanels * kChannels;
    block_.panel_end = kPanels;
    block_.x = x.Tile(0);
    for (int32_t r = 0; r < rows; ++r) {
      block_.y[r] = out_.floats() + int64_t{r} * block_.n;
    }
  }
  // The best of some runs, in seconds.
  double Time(const QuantizedKernel& kernel) const {
    double best = INFINITY;
    for (int run = 0; run < kRuns; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      kernel.run(block_);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count());
    }
    return best;
  }

 private:
  AlignedBlock weights_, input_, out_;
  QuantizedBlock block_;
};

const QuantizedKernel* Fastest(QuantFormat format, int32_t rows) {
  const Trial trial(format, rows);
  const QuantizedKernel* fastest = &QuantizedKernels().front();
  double least = INFINITY;
  for (const QuantizedKernel& kernel : QuantizedKernels()) {
    // Not beside kernels that round alike: sessions must not hear what was measured.
    if (&kernel == fastest && QuantizedKernels().size() > 1) continue;
    const double seconds = trial.Time(kernel);
    if (seconds >= least * kMargin) continue;
    fastest = &kernel;
    least = seconds;
  }
  return fastest;
}

Choice Measure() {
  Choice choice{};
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4}) {
    auto& of_format = choice[static_cast<size_t>(format)];
    for (int32_t rows = 1; rows <= kQuantTile; ++rows) {
      of_format[static_cast<size_t>(rows - 1)] = Fastest(format, rows);
    }
    // Whoever wins with a full tile and takes two, takes two: what that saves is reading inputs and
    // weights again, which only matrices larger than the cache show (linear_benchmark, batch 32).
    of_format[kQuantTile] = of_format[kQuantTile - 1];
  }
  return choice;
}

const Choice& Chosen() {
  static const Choice choice = Measure();
  return choice;
}

}  // namespace

void ChooseQuantizedKernels() { Chosen(); }

const QuantizedKernel& ChosenKernel(QuantFormat format, int32_t rows) {
  const int32_t index = std::min(rows, kQuantTile + 1) - 1;
  return *Chosen()[static_cast<size_t>(format)][static_cast<size_t>(index)];
}

}  // namespace antiphon::kernels::cpu
