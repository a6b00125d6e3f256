// The paged cache in the cpu executor's layout, made so that attention reads it as a linear layer
// reads weights: keys lie in panels of 16 positions (a vector lane is a position, the query is
// broadcast), values with channels as lanes (a position's weight is broadcast). No horizontal sums,
// and every format is widened by one instruction.
//
// One chunk holds a page's 64 positions of one layer and head; chunks of consecutive pages of a
// head follow each other, so that a session that owns consecutive pages streams. Layouts of a
// chunk, D = head_dim (keys rounded up to 8, values to 16):
//   keys   f32, bf16  [4 panels][D][16 positions]
//          int8       [4][D / 2][16][2 channels] and scales bf16 [64]
//          int4       [4][D / 8][16][4 bytes: channels 0..3 low, 4..7 high nibbles] and scales,
//                     minima bf16 [D] each
//   values f32, bf16  [64][D]
//          int8       [32][D][2 positions] and scales bf16 [64]
//          int4       [8][D][4 bytes: positions 0..3 low, 4..7 high nibbles] and scales bf16 [64]
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_weights.h"
#include "kernels/kv_cache.h"

namespace antiphon::kernels::cpu {

// A page's chunks of one layer and head.
struct KvChunk {
  KvFormat format = KvFormat::kF32;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
};

class KvMemory {
 public:
  KvMemory() = default;
  // Throws std::bad_alloc.
  explicit KvMemory(const KvShape& shape);

  // Stores k and v [kv_heads, head_dim] of a slot's position in `layer`, and seals a page of that
  // layer if it is due. table: [slots, slot_pages].
  void Append(const int32_t* table, int32_t slot, int64_t position, int32_t layer, const float* k,
              const float* v) noexcept;

  // The chunk that a query at `position` reads of the slot's page `page` (position / 64).
  KvChunk Chunk(const int32_t* table, int32_t slot, int64_t page, int64_t position, int32_t layer,
                int32_t head) const noexcept;

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }
  int64_t page_bytes() const;
  void ReadPage(int32_t page, std::byte* out) const noexcept;
  void WritePage(int32_t page, const std::byte* in) noexcept;

 private:
  // A region of chunks [layers, kv_heads, pages] of keys and another of values.
  struct Region {
    KvFormat format = KvFormat::kF32;
    int64_t pages = 0;
    int64_t key_bytes = 0, value_bytes = 0;  // of a chunk
    std::byte* keys = nullptr;
    std::byte* values = nullptr;
    int64_t size(int64_t heads) const { return heads * pages * (key_bytes + value_bytes); }
  };
  static Region MakeRegion(KvFormat format, int32_t head_dim, int64_t pages);
  KvChunk At(const Region& region, int32_t layer, int32_t head, int64_t page) const;
  void Seal(const int32_t* table, int32_t slot, int64_t page, int32_t layer) noexcept;

  KvShape shape_;
  Region pool_;
  Region recent_;  // int4: [slots, prompt_pages + kRecentPages] of int8
  AlignedBlock memory_;
};

}  // namespace antiphon::kernels::cpu
