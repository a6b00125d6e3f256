#include "kernels/cpu/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/cpu/linear_kernel.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Round to nearest even; NaN stays NaN.
uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// Tables stay in the checkpoint's own precision: they are read a row at a time, so that size does
// not cost time, and their rows enter every later result.
bool StoresBf16(const WeightSpec& spec, WeightFormat format) {
  if (spec.kind != WeightKind::kMatrix || format == WeightFormat::kF32) return false;
  return format == WeightFormat::kBf16 || spec.bf16;
}

size_t BytesOf(const WeightSpec& spec, bool bf16) {
  if (spec.kind != WeightKind::kMatrix) {
    return static_cast<size_t>(spec.rows * spec.cols) * sizeof(float);
  }
  const size_t rows = RoundUp(static_cast<size_t>(spec.rows), kPanel);
  return rows * static_cast<size_t>(spec.cols) * (bf16 ? 2 : 4);
}

template <typename T, typename Convert>
void PackPanels(const WeightSpec& spec, T* out, Convert convert) {
  std::vector<float> rows(static_cast<size_t>(kPanel * spec.cols));
  for (int64_t begin = 0; begin < spec.rows; begin += kPanel) {
    const int64_t count = std::min<int64_t>(kPanel, spec.rows - begin);
    std::fill(rows.begin(), rows.end(), 0.0F);
    spec.read(begin, count, rows.data());
    for (int64_t k = 0; k < spec.cols; ++k) {
      for (int64_t r = 0; r < kPanel; ++r) {
        *out++ = convert(rows[static_cast<size_t>(r * spec.cols + k)]);
      }
    }
  }
}

void PackRows(const WeightSpec& spec, float* out) {
  constexpr int64_t kRowsAtOnce = 256;
  for (int64_t begin = 0; begin < spec.rows; begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, spec.rows - begin);
    spec.read(begin, count, out + begin * spec.cols);
  }
}

}  // namespace

void AlignedBlock::Free::operator()(std::byte* p) const { std::free(p); }

AlignedBlock::AlignedBlock(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const size_t unit = bytes >= kHugePage ? kHugePage : kLine;
  const size_t rounded = RoundUp(bytes, unit);
  void* memory = std::aligned_alloc(unit, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // Fewer page-table walks over gigabytes of weights; without the kernel's help nothing is lost.
  if (unit == kHugePage) ::madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  data_.reset(static_cast<std::byte*>(memory));
}

void PackedWeights::Pack(const WeightTable& table, WeightFormat format) {
  size_t total = 0;
  std::vector<size_t> offsets;
  for (const WeightSpec& spec : table.specs()) {
    const bool bf16 = StoresBf16(spec, format);
    weights_.push_back({nullptr, bf16, spec.rows, spec.cols});
    offsets.push_back(total);
    total += RoundUp(BytesOf(spec, bf16), kLine);
  }
  block_ = AlignedBlock(total);
  for (size_t i = 0; i < weights_.size(); ++i) {
    const WeightSpec& spec = table.specs()[i];
    std::byte* out = block_.data() + offsets[i];
    weights_[i].data = out;
    if (spec.kind != WeightKind::kMatrix) {
      PackRows(spec, reinterpret_cast<float*>(out));
    } else if (weights_[i].bf16) {
      PackPanels(spec, reinterpret_cast<uint16_t*>(out), ToBf16);
    } else {
      PackPanels(spec, reinterpret_cast<float*>(out), [](float value) { return value; });
    }
  }
}

}  // namespace antiphon::kernels::cpu
