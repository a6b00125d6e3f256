#include "kernels/cpu/kv_memory.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/kv_layout.h"
#include "kernels/kv_quant.h"
#include "kernels/op.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr int64_t kLine = 64;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Chunks are written through mutable pointers and read through const ones.
std::byte* Mutable(const std::byte* p) { return const_cast<std::byte*>(p); }

void AppendFloats(const KvChunk& chunk, int32_t head_dim, int32_t o, const float* k,
                  const float* v) {
  const KvLayout layout(head_dim);
  auto* keys = reinterpret_cast<float*>(Mutable(chunk.keys));
  auto* values = reinterpret_cast<float*>(Mutable(chunk.values)) + o * layout.value_width;
  for (int32_t d = 0; d < head_dim; ++d) keys[layout.Key(o, d)] = k[d];
  std::copy(v, v + head_dim, values);
}

void AppendBf16(const KvChunk& chunk, int32_t head_dim, int32_t o, const float* k, const float* v) {
  const KvLayout layout(head_dim);
  auto* keys = reinterpret_cast<uint16_t*>(Mutable(chunk.keys));
  auto* values = reinterpret_cast<uint16_t*>(Mutable(chunk.values)) + o * layout.value_width;
  for (int32_t d = 0; d < head_dim; ++d) keys[layout.Key(o, d)] = ToBf16(k[d]);
  std::transform(v, v + head_dim, values, ToBf16);
}

void AppendInt8(const KvChunk& chunk, int32_t head_dim, int32_t o, const float* k, const float* v) {
  const KvLayout layout(head_dim);
  const Int8Scale key_scale = Int8Scale::Of(k, head_dim), value_scale = Int8Scale::Of(v, head_dim);
  auto* keys = reinterpret_cast<int8_t*>(Mutable(chunk.keys));
  auto* values = reinterpret_cast<int8_t*>(Mutable(chunk.values));
  // First all levels, which vectorises, then their places, which does not.
  int8_t key_levels[kMaxHeadDim], value_levels[kMaxHeadDim];
  for (int32_t d = 0; d < head_dim; ++d) key_levels[d] = key_scale.Quantize(k[d]);
  for (int32_t d = 0; d < head_dim; ++d) value_levels[d] = value_scale.Quantize(v[d]);
  for (int32_t d = 0; d < head_dim; ++d) {
    keys[layout.KeyInt8(o, d)] = key_levels[d];
    values[layout.ValueInt8(o, d)] = value_levels[d];
  }
  reinterpret_cast<uint16_t*>(keys + layout.int8_key_scales())[o] = key_scale.bits;
  reinterpret_cast<uint16_t*>(values + layout.int8_value_scales())[o] = value_scale.bits;
}

// Writes the low or high half of a byte.
void PutNibble(uint8_t* byte, bool high, uint8_t q) {
  *byte = static_cast<uint8_t>(high ? (*byte & 0x0F) | q << 4 : (*byte & 0xF0) | q);
}

void SealKeys(const KvLayout& layout, int32_t head_dim, const int8_t* from, uint8_t* to) {
  const auto* scales = reinterpret_cast<const uint16_t*>(from + layout.int8_key_scales());
  auto* channel_scales = reinterpret_cast<uint16_t*>(to + layout.int4_key_scales());
  uint16_t* minima = channel_scales + layout.key_width;
  for (int32_t d = 0; d < head_dim; ++d) {
    float x[kKvPage];
    for (int32_t o = 0; o < kKvPage; ++o) {
      x[o] = FromBf16(scales[o]) * static_cast<float>(from[layout.KeyInt8(o, d)]);
    }
    const auto [least, largest] = std::minmax_element(x, x + kKvPage);
    const Int4Channel channel = Int4Channel::Of(*least, *largest);
    for (int32_t o = 0; o < kKvPage; ++o) {
      PutNibble(to + layout.KeyInt4(o, d), d % 8 >= 4, channel.Quantize(x[o]));
    }
    channel_scales[d] = channel.scale_bits;
    minima[d] = channel.minimum_bits;
  }
}

void SealValues(const KvLayout& layout, int32_t head_dim, const int8_t* from, uint8_t* to) {
  const auto* scales = reinterpret_cast<const uint16_t*>(from + layout.int8_value_scales());
  auto* sealed = reinterpret_cast<uint16_t*>(to + layout.int4_value_scales());
  for (int32_t o = 0; o < kKvPage; ++o) {
    float x[kMaxHeadDim];
    for (int32_t d = 0; d < head_dim; ++d) {
      x[d] = FromBf16(scales[o]) * static_cast<float>(from[layout.ValueInt8(o, d)]);
    }
    const Int4Scale scale = Int4Scale::Of(x, head_dim);
    for (int32_t d = 0; d < head_dim; ++d) {
      PutNibble(to + layout.ValueInt4(o, d), o % 8 >= 4, scale.Quantize(x[d]));
    }
    sealed[o] = scale.bits;
  }
}

}  // namespace

KvMemory::KvMemory(const KvShape& shape) : shape_(shape) {
  if (shape.layers == 0) return;
  const bool sealed = shape.format == KvFormat::kInt4;
  pool_ = MakeRegion(shape.format, shape.head_dim, shape.pages);
  if (sealed) {
    recent_ = MakeRegion(KvFormat::kInt8, shape.head_dim,
                         int64_t{shape.slots} * (shape.prompt_pages + kRecentPages));
  }
  const int64_t heads = int64_t{shape.layers} * shape.kv_heads;
  memory_ = AlignedBlock(static_cast<size_t>(pool_.size(heads) + recent_.size(heads)));
  std::byte* at = memory_.data();
  for (Region* region : {&pool_, &recent_}) {
    region->keys = at;
    region->values = at + heads * region->pages * region->key_bytes;
    at += region->size(heads);
  }
}

KvMemory::Region KvMemory::MakeRegion(KvFormat format, int32_t head_dim, int64_t pages) {
  const KvLayout layout(head_dim);
  Region region;
  region.format = format;
  region.pages = pages;
  region.key_bytes = RoundUp(layout.key_bytes(format), kLine);
  region.value_bytes = RoundUp(layout.value_bytes(format), kLine);
  return region;
}

KvChunk KvMemory::At(const Region& region, int32_t layer, int32_t head, int64_t page) const {
  const int64_t index = (int64_t{layer} * shape_.kv_heads + head) * region.pages + page;
  return {region.format, region.keys + index * region.key_bytes,
          region.values + index * region.value_bytes};
}

KvChunk KvMemory::Chunk(const int32_t* table, int32_t slot, int64_t page, int64_t position,
                        int32_t layer, int32_t head) const noexcept {
  if (shape_.format == KvFormat::kInt4 && !IsSealed(shape_, layer, page, position)) {
    return At(recent_, layer, head,
              int64_t{slot} * (shape_.prompt_pages + kRecentPages) + RecentPage(shape_, page));
  }
  return At(pool_, layer, head, table[TableEntry(shape_, slot, page * kKvPage)]);
}

void KvMemory::Append(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                      const float* k, const float* v) noexcept {
  const auto o = static_cast<int32_t>(position % kKvPage);
  for (int32_t head = 0; head < shape_.kv_heads; ++head) {
    const KvChunk chunk = Chunk(table, slot, position / kKvPage, position, layer, head);
    switch (chunk.format) {
      case KvFormat::kF32:
        AppendFloats(chunk, shape_.head_dim, o, k, v);
        break;
      case KvFormat::kBf16:
        AppendBf16(chunk, shape_.head_dim, o, k, v);
        break;
      default:
        AppendInt8(chunk, shape_.head_dim, o, k, v);
        break;
    }
    k += shape_.head_dim;
    v += shape_.head_dim;
  }
  const int64_t due = PageToSeal(shape_, layer, position);
  if (due >= 0) Seal(table, slot, due, layer);
}

void KvMemory::Seal(const int32_t* table, int32_t slot, int64_t page, int32_t layer) noexcept {
  const KvLayout layout(shape_.head_dim);
  for (int32_t head = 0; head < shape_.kv_heads; ++head) {
    // As a query of the page itself finds it, and where later ones will.
    const KvChunk from = Chunk(table, slot, page, page * kKvPage, layer, head);
    const KvChunk to = At(pool_, layer, head, table[TableEntry(shape_, slot, page * kKvPage)]);
    SealKeys(layout, shape_.head_dim, reinterpret_cast<const int8_t*>(from.keys),
             reinterpret_cast<uint8_t*>(Mutable(to.keys)));
    SealValues(layout, shape_.head_dim, reinterpret_cast<const int8_t*>(from.values),
               reinterpret_cast<uint8_t*>(Mutable(to.values)));
  }
}

int64_t KvMemory::page_bytes() const {
  return int64_t{shape_.layers} * shape_.kv_heads * (pool_.key_bytes + pool_.value_bytes);
}

void KvMemory::ReadPage(int32_t page, std::byte* out) const noexcept {
  const auto keys = static_cast<size_t>(pool_.key_bytes);
  const auto values = static_cast<size_t>(pool_.value_bytes);
  for (int32_t layer = 0; layer < shape_.layers; ++layer) {
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      const KvChunk chunk = At(pool_, layer, head, page);
      std::memcpy(out, chunk.keys, keys);
      std::memcpy(out + keys, chunk.values, values);
      out += keys + values;
    }
  }
}

void KvMemory::WritePage(int32_t page, const std::byte* in) noexcept {
  const auto keys = static_cast<size_t>(pool_.key_bytes);
  const auto values = static_cast<size_t>(pool_.value_bytes);
  for (int32_t layer = 0; layer < shape_.layers; ++layer) {
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      const KvChunk chunk = At(pool_, layer, head, page);
      std::memcpy(Mutable(chunk.keys), in, keys);
      std::memcpy(Mutable(chunk.values), in + keys, values);
      in += keys + values;
    }
  }
}

}  // namespace antiphon::kernels::cpu
