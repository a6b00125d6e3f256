#include "kernels/cpu/quantized_linear.h"

#include <algorithm>

#include "kernels/bf16.h"
#include "kernels/cpu/quantized_linear_x86.h"
#include "kernels/cpu/vector_kernels.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr int32_t kChannels = 16;

// Any machine: the layout read lane by lane.
void RunPortable(const QuantizedBlock& block) noexcept {
  const bool int4 = block.format == QuantFormat::kInt4;
  const int64_t block_bytes = QuantBlockBytes(block.format);
  for (int32_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
    for (int32_t r = 0; r < block.x.rows; ++r) {
      const std::byte* at = block.panels + int64_t{panel} * block.blocks * block_bytes;
      float sums[kChannels] = {};
      for (int32_t g = 0; g < block.blocks * kGroupsPerBlock; ++g) {
        const int64_t index = int64_t{g} * block.x.rows + r;
        const int8_t* x = block.x.levels + index * kQuantGroup;
        const std::byte* start = at + g / kGroupsPerBlock * block_bytes;
        const auto* scales =
            reinterpret_cast<const uint16_t*>(start) + g % kGroupsPerBlock * kChannels;
        const auto* levels = reinterpret_cast<const uint8_t*>(start) +
                             2 * kChannels * kGroupsPerBlock +
                             g % kGroupsPerBlock * kChannels * kQuantGroup / (int4 ? 2 : 1);
        for (int32_t c = 0; c < kChannels; ++c) {
          int32_t dot = block.x.starts[index];
          for (int32_t i = 0; i < kQuantGroup; ++i) {
            const int32_t level =
                int4 ? levels[(i / 8 * kChannels + c) * 4 + i % 4] >> (i % 8 >= 4 ? 4 : 0) & 15
                     : levels[(i / 4 * kChannels + c) * 4 + i % 4];
            dot += level * x[i];
          }
          sums[c] += static_cast<float>(dot) * (FromBf16(scales[c]) * block.x.scales[index]);
        }
      }
      FinishPanel(block, panel, sums, block.y[r]);
    }
  }
}

std::vector<QuantizedKernel> FindKernels() {
  std::vector<QuantizedKernel> kernels = {{"portable", RunPortable}};
#ifdef __x86_64__
  if (HasAvx2Kernel()) kernels.push_back({"avx2", RunAvx2});
  if (HasVnniKernel()) kernels.push_back({"avx512-vnni", RunVnni});
  if (HasAmxKernel()) kernels.push_back({"amx-int8", RunAmx, true});
#endif
  return kernels;
}

}  // namespace

const std::vector<QuantizedKernel>& QuantizedKernels() {
  static const std::vector<QuantizedKernel> kernels = FindKernels();
  return kernels;
}

void QuantizedLinear(const QuantizedBlock& block) noexcept {
  const QuantizedKernel& kernel = ChosenKernel(block.format, block.x.rows + block.second.rows);
  if (block.second.rows == 0 || kernel.two_tiles) {
    kernel.run(block);
    return;
  }
  QuantizedBlock one = block;
  one.second = {};
  kernel.run(one);
  one.x = block.second;
  std::copy_n(block.y + kQuantTile, kQuantTile, one.y);
  kernel.run(one);
}

void FinishPanel(const QuantizedBlock& block, int32_t panel, const float* sums, float* y) noexcept {
  const int32_t begin = panel * kChannels;
  const int32_t count = std::min(kChannels, block.n - begin);
  float values[kChannels] = {};
  for (int32_t c = 0; c < count; ++c) {
    values[c] = sums[c] + (block.bias != nullptr ? block.bias[begin + c] : 0.0F);
  }
  if (block.activation != Activation::kNone) {
    ActivateVector(block.activation, values, values, count);
  }
  for (int32_t c = 0; c < count; ++c) {
    const float value = block.scale != nullptr ? values[c] * block.scale[begin + c] : values[c];
    y[begin + c] = block.accumulate ? y[begin + c] + value : value;
  }
}

}  // namespace antiphon::kernels::cpu
