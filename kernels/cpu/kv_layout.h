// Where an element of a page's chunk lies (kv_memory.h draws the layouts). Elements for f32 and
// bf16, bytes for the packed formats.
#pragma once

#include <cstdint>

#include "kernels/kv_cache.h"

namespace antiphon::kernels::cpu {

inline constexpr int32_t kKvPanel = 16;  // positions of a panel of keys
inline constexpr int32_t kKvPanels = kKvPage / kKvPanel;

struct KvLayout {
  explicit KvLayout(int32_t head_dim)
      : key_width((head_dim + 7) / 8 * 8), value_width((head_dim + 15) / 16 * 16) {}

  int32_t key_width;    // channels of a key, whole groups of 8
  int32_t value_width;  // channels of a value, whole groups of 16

  // Position o of the page (0..63), channel d.
  int32_t Key(int32_t o, int32_t d) const {
    return (o / kKvPanel * key_width + d) * kKvPanel + o % kKvPanel;
  }
  int32_t KeyInt8(int32_t o, int32_t d) const {
    return (o / kKvPanel * (key_width / 2) + d / 2) * 2 * kKvPanel + o % kKvPanel * 2 + d % 2;
  }
  int32_t ValueInt8(int32_t o, int32_t d) const { return (o / 2 * value_width + d) * 2 + o % 2; }
  // The byte; channels (positions) 4 to 7 of eight are in its high half.
  int32_t KeyInt4(int32_t o, int32_t d) const {
    return (o / kKvPanel * (key_width / 8) + d / 8) * 4 * kKvPanel + o % kKvPanel * 4 + d % 4;
  }
  int32_t ValueInt4(int32_t o, int32_t d) const { return (o / 8 * value_width + d) * 4 + o % 4; }

  // Byte offsets of the bf16 scales.
  int32_t int8_key_scales() const { return kKvPage * key_width; }
  int32_t int8_value_scales() const { return kKvPage * value_width; }
  int32_t int4_key_scales() const { return kKvPage * key_width / 2; }  // then the minima
  int32_t int4_value_scales() const { return kKvPage * value_width / 2; }

  int64_t key_bytes(KvFormat format) const {
    switch (format) {
      case KvFormat::kF32:
        return int64_t{4} * kKvPage * key_width;
      case KvFormat::kBf16:
        return int64_t{2} * kKvPage * key_width;
      case KvFormat::kInt8:
        return int8_key_scales() + 2 * kKvPage;
      case KvFormat::kInt4:
        return int4_key_scales() + 4 * key_width;
    }
    return 0;
  }
  int64_t value_bytes(KvFormat format) const {
    switch (format) {
      case KvFormat::kF32:
        return int64_t{4} * kKvPage * value_width;
      case KvFormat::kBf16:
        return int64_t{2} * kKvPage * value_width;
      case KvFormat::kInt8:
        return int8_value_scales() + 2 * kKvPage;
      case KvFormat::kInt4:
        return int4_value_scales() + 2 * kKvPage;
    }
    return 0;
  }
};

}  // namespace antiphon::kernels::cpu
