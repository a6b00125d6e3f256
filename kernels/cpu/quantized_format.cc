#include "kernels/cpu/quantized_format.h"

#include <algorithm>
#include <cmath>

#include "kernels/bf16.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/kv_quant.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr int32_t kPanelRows = 16;

struct Levels {
  float least, largest;  // of q
};
constexpr Levels LevelsOf(QuantFormat format) {
  return format == QuantFormat::kInt4 ? Levels{-8.0F, 7.0F} : Levels{-127.0F, 127.0F};
}

float Level(float x, float inverse, Levels levels) {
  const float q = RoundToInteger(x * inverse);
  return Clamped(q, levels.least, levels.largest);
}

float SquaredError(const float* x, float scale, Levels levels) {
  const float inverse = InverseOf(scale);
  if (inverse == 0.0F) return INFINITY;
  float error = 0.0F;
  for (int32_t i = 0; i < kQuantGroup; ++i) {
    const float lost = x[i] - scale * Level(x[i], inverse, levels);
    error += lost * lost;
  }
  return error;
}

float Rounded(float scale) { return FromBf16(ToBf16(scale)); }

// The scale of a group. int8: its largest magnitude becomes 127. int4: among scales that make the
// extreme value -8 or a little beyond it, the one that loses least: clipping one weight costs less
// than a coarser step for the other 31.
float ScaleOf(const float* x, QuantFormat format) {
  float extreme = 0.0F;
  for (int32_t i = 0; i < kQuantGroup; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (format == QuantFormat::kInt8) return Rounded(std::fabs(extreme) / 127.0F);
  float best = 0.0F, least = INFINITY;
  for (const float divisor : {-8.0F, -8.6F, -9.2F, 7.4F, -9.8F}) {
    const float scale = Rounded(extreme / divisor);
    const float error = SquaredError(x, scale, LevelsOf(format));
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

// Byte of an input's level within a group, and whether it is the byte's high half.
struct Place {
  int32_t byte;
  bool high;
};
Place PlaceOf(QuantFormat format, int32_t channel, int32_t input) {
  if (format == QuantFormat::kInt8)
    return {(input / 4 * kPanelRows + channel) * 4 + input % 4, false};
  return {(input / 8 * kPanelRows + channel) * 4 + input % 4, input % 8 >= 4};
}

int64_t GroupBytes(QuantFormat format) {
  return kPanelRows * kQuantGroup / (format == QuantFormat::kInt4 ? 2 : 1);
}

}  // namespace

QuantizedTile QuantizedRows::Tile(int64_t tile) const {
  const int64_t groups = int64_t{blocks_} * kGroupsPerBlock;
  QuantizedTile out;
  out.rows = static_cast<int32_t>(std::min<int64_t>(kQuantTile, rows_ - tile * kQuantTile));
  std::byte* at = memory_ + tile * Bytes(kQuantTile, blocks_);
  out.levels = reinterpret_cast<int8_t*>(at);
  out.scales = reinterpret_cast<float*>(at + groups * out.rows * kQuantGroup);
  out.starts = reinterpret_cast<int32_t*>(out.scales + groups * out.rows);
  return out;
}

void QuantizedRows::Quantize(const float* x, int32_t k, int32_t taps, int64_t tap_step,
                             QuantFormat format, int64_t row) const noexcept {
  const QuantizedTile tile = Tile(row / kQuantTile);
  const int64_t in_tile = row % kQuantTile;
  const int32_t groups = blocks_ * kGroupsPerBlock, piece = k / taps;
  for (int32_t g = 0; g < groups; ++g) {
    const int32_t at = g * kQuantGroup;
    const float* group = x + at;
    alignas(64) float gathered[kQuantGroup];
    if (taps > 1 || at + kQuantGroup > k) {
      for (int32_t i = 0; i < kQuantGroup; ++i) {
        const int32_t input = at + i;
        gathered[i] = input < k ? x[input / piece * tap_step + input % piece] : 0.0F;
      }
      group = gathered;
    }
    const int64_t index = g * tile.rows + in_tile;
    const int32_t sum =
        QuantizeGroup(group, tile.levels + index * kQuantGroup, tile.scales + index);
    tile.starts[index] = -ZeroLevel(format) * sum;
  }
}

void QuantizePanel(const float* rows, int64_t cols, QuantFormat format, std::byte* panel) {
  const int32_t blocks = QuantBlocks(cols);
  for (int32_t block = 0; block < blocks; ++block) {
    auto* scales = reinterpret_cast<uint16_t*>(panel);
    auto* levels = reinterpret_cast<uint8_t*>(panel + 2 * kPanelRows * kGroupsPerBlock);
    std::fill_n(levels, GroupBytes(format) * kGroupsPerBlock, uint8_t{0});
    for (int32_t g = 0; g < kGroupsPerBlock; ++g, levels += GroupBytes(format)) {
      for (int32_t channel = 0; channel < kPanelRows; ++channel) {
        float x[kQuantGroup] = {};
        const int64_t at = int64_t{block} * kQuantBlock + g * kQuantGroup;
        const int64_t count = std::clamp<int64_t>(cols - at, 0, kQuantGroup);
        std::copy_n(rows + channel * cols + at, count, x);
        const float scale = ScaleOf(x, format);
        const float inverse = InverseOf(scale);
        scales[g * kPanelRows + channel] = inverse == 0.0F ? uint16_t{0} : ToBf16(scale);
        for (int32_t i = 0; i < kQuantGroup; ++i) {
          const auto level = static_cast<int32_t>(Level(x[i], inverse, LevelsOf(format)));
          const Place place = PlaceOf(format, channel, i);
          const int32_t stored = level + ZeroLevel(format);
          levels[place.byte] =
              static_cast<uint8_t>(levels[place.byte] | (place.high ? stored << 4 : stored));
        }
      }
    }
    panel += QuantBlockBytes(format);
  }
}

float QuantizedValue(const std::byte* panel, QuantFormat format, int32_t channel, int64_t input) {
  panel += input / kQuantBlock * QuantBlockBytes(format);
  const auto group = static_cast<int32_t>(input % kQuantBlock / kQuantGroup);
  const auto* scales = reinterpret_cast<const uint16_t*>(panel);
  const auto* levels = reinterpret_cast<const uint8_t*>(panel) + 2 * kPanelRows * kGroupsPerBlock +
                       group * GroupBytes(format);
  const Place place = PlaceOf(format, channel, static_cast<int32_t>(input % kQuantGroup));
  int32_t level = levels[place.byte];
  if (format == QuantFormat::kInt4) level = place.high ? level >> 4 : level & 15;
  return FromBf16(scales[group * kPanelRows + channel]) *
         static_cast<float>(level - ZeroLevel(format));
}

}  // namespace antiphon::kernels::cpu
