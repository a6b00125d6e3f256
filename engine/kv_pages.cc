#include "engine/kv_pages.h"

#include <cassert>

#include "kernels/kv_cache.h"

namespace antiphon::engine {

KvPages::KvPages(int slots, int slot_pages, int pool_pages)
    : slot_pages_(slot_pages),
      free_count_(pool_pages),
      table_(static_cast<size_t>(slots * slot_pages), kNone),
      reserved_(static_cast<size_t>(slots)),
      free_(static_cast<size_t>(pool_pages), true) {}

bool KvPages::Reserve(int slot) noexcept {
  if (reserved(slot)) return true;
  if ((reservations_ + 1) * slot_pages_ > pool_pages()) return false;
  ++reservations_;
  reserved_[static_cast<size_t>(slot)] = true;
  return true;
}

void KvPages::Release(int slot) noexcept {
  if (!reserved(slot)) return;
  for (int entry = 0; entry < slot_pages_; ++entry) {
    int32_t& page = table_[Index(slot, entry)];
    if (page == kNone) continue;
    free_[static_cast<size_t>(page)] = true;
    ++free_count_;
    page = kNone;
  }
  --reservations_;
  reserved_[static_cast<size_t>(slot)] = false;
}

void KvPages::Extend(int slot, int64_t position) noexcept {
  assert(reserved(slot));
  const auto entry = static_cast<int>(position / kernels::kKvPage % slot_pages_);
  if (table_[Index(slot, entry)] == kNone) Take(slot, entry);
}

// The page after the ring's previous one, so that attention streams; else any free one.
void KvPages::Take(int slot, int entry) noexcept {
  const int32_t before = entry > 0 ? table_[Index(slot, entry - 1)] : kNone;
  auto page = static_cast<size_t>(before == kNone ? slot * slot_pages_ + entry : before + 1);
  if (page >= free_.size() || !free_[page]) {
    page = search_from_;
    while (!free_[page]) page = page + 1 == free_.size() ? 0 : page + 1;
    search_from_ = page;
  }
  free_[page] = false;
  --free_count_;
  table_[Index(slot, entry)] = static_cast<int32_t>(page);
}

std::vector<int32_t> KvPages::Entries(int slot) const {
  std::vector<int32_t> entries;
  for (int entry = 0; entry < slot_pages_; ++entry) {
    if (page(slot, entry) != kNone) entries.push_back(entry);
  }
  return entries;
}

bool KvPages::TakeBack(int slot, std::span<const int32_t> entries) noexcept {
  if (!Reserve(slot)) return false;
  for (const int32_t entry : entries) {
    if (page(slot, entry) == kNone) Take(slot, entry);
  }
  return true;
}

}  // namespace antiphon::engine
