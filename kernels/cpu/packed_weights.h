// Weights in the cpu executor's layout: matrices in panels (linear_kernel.h), tables and vectors
// row by row, all in one aligned block of memory. Filled once, then read only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/quantized_format.h"
#include "kernels/executor.h"
#include "kernels/plan.h"

namespace antiphon::kernels::cpu {

struct PackedWeight {
  const std::byte* data = nullptr;
  WeightFormat format = WeightFormat::kF32;  // never kAuto
  bool quantized() const { return format == WeightFormat::kInt8 || format == WeightFormat::kInt4; }
  QuantFormat quant_format() const {
    return format == WeightFormat::kInt4 ? QuantFormat::kInt4 : QuantFormat::kInt8;
  }
  int64_t rows = 0;
  int64_t cols = 0;
};

// Memory aligned for vectors and, where it is large, for huge pages; zeroed.
class AlignedBlock {
 public:
  explicit AlignedBlock(size_t bytes = 0);
  std::byte* data() { return data_.get(); }
  float* floats() { return reinterpret_cast<float*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

class PackedWeights {
 public:
  // Reads every weight of the table in pieces, so that no second copy of the model exists
  // meanwhile, on all cores.
  void Pack(const WeightTable& table, WeightFormat format);

  const PackedWeight& At(int32_t index) const { return weights_[static_cast<size_t>(index)]; }
  // A vector's floats, null for kNoWeight.
  const float* Vector(int32_t index) const {
    return index == kNoWeight ? nullptr : reinterpret_cast<const float*>(At(index).data);
  }
  int64_t bytes() const { return static_cast<int64_t>(block_.bytes()); }

 private:
  std::vector<PackedWeight> weights_;
  AlignedBlock block_;
};

}  // namespace antiphon::kernels::cpu
