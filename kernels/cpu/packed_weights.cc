#include "kernels/cpu/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <new>
#include <thread>

#include "kernels/bf16.h"
#include "kernels/cpu/linear_kernel.h"
#include "kernels/cpu/quantized_linear.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Tables stay in the checkpoint's own precision: they are read a row at a time, so that size does
// not cost time, and their rows enter every later result. Vectors are small.
WeightFormat StoredFormat(const WeightSpec& spec, WeightFormat wanted) {
  if (wanted == WeightFormat::kF32 || spec.kind == WeightKind::kVector) return WeightFormat::kF32;
  if (spec.kind == WeightKind::kTable) {
    return spec.bf16 && !spec.keep ? WeightFormat::kBf16 : WeightFormat::kF32;
  }
  if (wanted == WeightFormat::kBf16) return wanted;
  if (wanted == WeightFormat::kAuto || spec.keep) {
    return spec.bf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
  }
  return wanted;
}

size_t PanelBytes(const PackedWeight& weight) {
  const auto cols = static_cast<size_t>(weight.cols);
  if (weight.quantized()) {
    return static_cast<size_t>(QuantBlocks(weight.cols) * QuantBlockBytes(weight.quant_format()));
  }
  return cols * kPanel * (weight.format == WeightFormat::kBf16 ? 2 : 4);
}

size_t BytesOf(const WeightSpec& spec, const PackedWeight& weight) {
  if (spec.kind != WeightKind::kMatrix) {
    const size_t element = weight.format == WeightFormat::kBf16 ? 2 : 4;
    return static_cast<size_t>(spec.rows * spec.cols) * element;
  }
  return (static_cast<size_t>(spec.rows) + kPanel - 1) / kPanel * PanelBytes(weight);
}

// rows: [kPanel, cols].
template <typename T, typename Convert>
void PackPanel(const std::vector<float>& rows, int64_t cols, T* out, Convert convert) {
  for (int64_t k = 0; k < cols; ++k) {
    for (int64_t r = 0; r < kPanel; ++r) *out++ = convert(rows[static_cast<size_t>(r * cols + k)]);
  }
}

// Every parts-th panel of a matrix, from the part-th on.
void PackPanels(const WeightSpec& spec, const PackedWeight& weight, int part, int parts,
                std::byte* out) {
  std::vector<float> rows(static_cast<size_t>(kPanel * spec.cols));
  const size_t bytes = PanelBytes(weight);
  for (int64_t panel = part; panel * kPanel < spec.rows; panel += parts) {
    const int64_t begin = panel * kPanel, count = std::min<int64_t>(kPanel, spec.rows - begin);
    std::fill(rows.begin(), rows.end(), 0.0F);
    spec.read(begin, count, rows.data());
    std::byte* to = out + static_cast<size_t>(panel) * bytes;
    if (weight.quantized()) {
      QuantizePanel(rows.data(), spec.cols, weight.quant_format(), to);
    } else if (weight.format == WeightFormat::kBf16) {
      PackPanel(rows, spec.cols, reinterpret_cast<uint16_t*>(to), ToBf16);
    } else {
      PackPanel(rows, spec.cols, reinterpret_cast<float*>(to), [](float value) { return value; });
    }
  }
}

// Tables and vectors, row by row.
void PackRows(const WeightSpec& spec, const PackedWeight& weight, std::byte* out) {
  constexpr int64_t kRowsAtOnce = 256;
  std::vector<float> rows;
  if (weight.format == WeightFormat::kBf16) {
    rows.resize(static_cast<size_t>(std::min(kRowsAtOnce, spec.rows) * spec.cols));
  }
  for (int64_t begin = 0; begin < spec.rows; begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, spec.rows - begin);
    if (rows.empty()) {
      spec.read(begin, count, reinterpret_cast<float*>(out) + begin * spec.cols);
    } else {
      spec.read(begin, count, rows.data());
      std::transform(rows.data(), rows.data() + count * spec.cols,
                     reinterpret_cast<uint16_t*>(out) + begin * spec.cols, ToBf16);
    }
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
    weights_.push_back({nullptr, StoredFormat(spec, format), spec.rows, spec.cols});
    offsets.push_back(total);
    total += RoundUp(BytesOf(spec, weights_.back()), kLine);
  }
  const auto quantized = [](const PackedWeight& weight) { return weight.quantized(); };
  if (std::any_of(weights_.begin(), weights_.end(), quantized)) ChooseQuantizedKernels();
  block_ = AlignedBlock(total);
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i].data = block_.data() + offsets[i];
  const int parts = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto pack = [&](int part) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      const WeightSpec& spec = table.specs()[i];
      std::byte* out = block_.data() + offsets[i];
      if (spec.kind == WeightKind::kMatrix) {
        PackPanels(spec, weights_[i], part, parts, out);
      } else if (i % static_cast<size_t>(parts) == static_cast<size_t>(part)) {
        PackRows(spec, weights_[i], out);
      }
    }
  };
  std::vector<std::future<void>> others;
  for (int part = 1; part < parts; ++part) {
    others.push_back(std::async(std::launch::async, pack, part));
  }
  pack(0);
  for (std::future<void>& other : others) other.get();
}

}  // namespace antiphon::kernels::cpu

namespace antiphon::kernels {

int64_t CpuPackedBytes(const WeightSpec& spec, WeightFormat format) {
  const cpu::PackedWeight weight{nullptr, cpu::StoredFormat(spec, format), spec.rows, spec.cols};
  return static_cast<int64_t>(cpu::BytesOf(spec, weight));
}

}  // namespace antiphon::kernels
