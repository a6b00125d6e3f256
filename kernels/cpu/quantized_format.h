// Quantized matrices in the cpu executor's layout, and the activations that meet them.
//
// Weights are 16 output channels to a panel, as everywhere here, and a panel is a sequence of
// blocks of 64 inputs: 32 scales (two groups of 32 inputs, [group][channel], bf16), then the
// levels, where a 32-bit lane is a channel and its four bytes are four consecutive inputs: what
// VNNI, dotprod and AMX multiply by a broadcast of four inputs. So a panel is one stream, read
// once, whose lines are whole.
//   int8  [2 groups][8][16 channels][4 inputs], q + 128
//   int4  [2 groups][4][16 channels][4 bytes: inputs j (low half) and j + 4 (high half)], q + 8
// Levels are stored unsigned, since the instructions take one unsigned side; the offset times the
// inputs' sum is what an accumulator starts from.
//
// Activations are int8 with a scale per group of 32, so that one large channel costs only its own
// group; rows are padded with zeros to whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon::kernels::cpu {

enum class QuantFormat : uint8_t { kInt8, kInt4 };

inline constexpr int32_t kQuantGroup = 32;
inline constexpr int32_t kQuantBlock = 64;
inline constexpr int32_t kGroupsPerBlock = kQuantBlock / kQuantGroup;

// What stands for zero among the stored levels.
constexpr int32_t ZeroLevel(QuantFormat format) { return format == QuantFormat::kInt4 ? 8 : 128; }

constexpr int64_t QuantBlockBytes(QuantFormat format) {
  return 2 * 16 * kGroupsPerBlock + 16 * kQuantBlock / (format == QuantFormat::kInt4 ? 2 : 1);
}
constexpr int32_t QuantBlocks(int64_t k) {
  return static_cast<int32_t>((k + kQuantBlock - 1) / kQuantBlock);
}

// Rows of a tile: as many sums as stay in registers beside a group's weights.
inline constexpr int32_t kQuantTile = 16;

// A tile of quantized inputs, group by group, so that a kernel finds all rows' share of a group in
// one place. x ~ scale of its group * level.
struct QuantizedTile {
  int8_t* levels = nullptr;   // [groups, rows, 32]
  float* scales = nullptr;    // [groups, rows]
  int32_t* starts = nullptr;  // [groups, rows]: -ZeroLevel * the group's sum
  int32_t rows = 0;           // 1..kQuantTile
};

// Quantized rows of an op's input, tile after tile, in memory that is not theirs.
class QuantizedRows {
 public:
  QuantizedRows() = default;
  // memory: Bytes(rows, blocks), 64-byte aligned.
  QuantizedRows(std::byte* memory, int64_t rows, int32_t blocks)
      : memory_(memory), rows_(rows), blocks_(blocks) {}
  static int64_t Bytes(int64_t rows, int32_t blocks) {
    return rows * blocks * (kQuantBlock + kGroupsPerBlock * 8);
  }
  int64_t rows() const { return rows_; }
  QuantizedTile Tile(int64_t tile) const;

  // Quantizes x, `taps` pieces of k / taps elements tap_step apart, into row `row`.
  void Quantize(const float* x, int32_t k, int32_t taps, int64_t tap_step, QuantFormat format,
                int64_t row) const noexcept;

 private:
  std::byte* memory_ = nullptr;
  int64_t rows_ = 0;
  int32_t blocks_ = 0;
};

// Packs 16 rows [16, cols] of a matrix as a panel of QuantBlocks(cols) blocks.
void QuantizePanel(const float* rows, int64_t cols, QuantFormat format, std::byte* panel);

// The value that a panel holds at a channel and input: for tests and for the plain twin.
float QuantizedValue(const std::byte* panel, QuantFormat format, int32_t channel, int64_t input);

}  // namespace antiphon::kernels::cpu
