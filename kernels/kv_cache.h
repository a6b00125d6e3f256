// The paged cache of keys and values: what a page holds, where a position lies, and when a page is
// packed more tightly. Pure arithmetic that the engine's allocator and all executors share.
//
// A slot's keys and values form a ring of `slot_pages` pages of 64 positions; position p lies on
// the slot's page p / 64, whose place in the pool stands in the page table at [slot, (p / 64) mod
// slot_pages]. The ring is one page longer than the attention window, so that a page is out of
// sight before its place is written again. A page of the pool holds its positions for all layers
// and heads.
//
// Formats: float32, bf16, and
//   int8  one scale per position and head, for keys and values alike;
//   int4  keys: scale and minimum per channel over the page (channels differ far more than
//         positions do), values: one scale per position and head. A page is written in int8 and
//         sealed, layer by layer, while the next one fills, so that the newest 64 to 159 positions
//         are int8; the first `prompt_pages`, which hold the persona's prompt, stay so. (Keys per
//         channel, values per token, a recent window kept: KIVI, arXiv 2402.02750.)
#pragma once

#include <cstdint>

namespace antiphon::kernels {

inline constexpr int32_t kKvPage = 64;  // positions
// Most consecutive positions of a slot that one run may append (prefill).
inline constexpr int32_t kKvChunk = 32;
// Pages of a slot that int4 keeps in int8 besides the prompt's: being written, being sealed, and
// one that a chunk's older rows may still read.
inline constexpr int32_t kRecentPages = 3;

enum class KvFormat : uint8_t { kF32, kBf16, kInt8, kInt4 };

struct KvShape {
  int32_t layers = 0;  // 0: no cache
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t slots = 0;
  int32_t slot_pages = 0;    // pages of a slot's ring
  int32_t pages = 0;         // pages of the pool
  int32_t prompt_pages = 0;  // int4: first pages of a session that stay int8
  KvFormat format = KvFormat::kF32;
};

// Pages of a ring that shows `window` positions to queries of runs of up to `chunk` positions.
constexpr int32_t KvSlotPages(int32_t window, int32_t chunk) {
  return (window + chunk - 1 + kKvPage - 1) / kKvPage + 1;
}

// A layer seals the page before the newest position's when that position is this far into its own
// page. Layers take turns, so that no tick packs a whole page; a chunk never reaches back into the
// page that it seals.
constexpr int32_t SealOffset(const KvShape& shape, int32_t layer) {
  return kKvChunk + layer * (kKvPage - kKvChunk) / shape.layers;
}
// Page that `layer` seals when it appends `position`; -1: none.
constexpr int64_t PageToSeal(const KvShape& shape, int32_t layer, int64_t position) {
  const int64_t page = position / kKvPage - 1;
  const bool due = shape.format == KvFormat::kInt4 && page >= shape.prompt_pages &&
                   position % kKvPage == SealOffset(shape, layer);
  return due ? page : -1;
}
// Whether a query at `position` finds the slot's page sealed in `layer`.
constexpr bool IsSealed(const KvShape& shape, int32_t layer, int64_t page, int64_t position) {
  return page >= shape.prompt_pages && position >= (page + 1) * kKvPage + SealOffset(shape, layer);
}
// Where an unsealed page lies among a slot's prompt_pages + kRecentPages int8 pages.
constexpr int64_t RecentPage(const KvShape& shape, int64_t page) {
  return page < shape.prompt_pages ? page : shape.prompt_pages + page % kRecentPages;
}

// Entry of the page table [slots, slot_pages].
constexpr int64_t TableEntry(const KvShape& shape, int32_t slot, int64_t position) {
  return int64_t{slot} * shape.slot_pages + position / kKvPage % shape.slot_pages;
}

}  // namespace antiphon::kernels
