// Which page of the cache's pool holds which positions of which slot: the page table that all
// executors read (kernels/kv_cache.h).
//
// A slot that joins reserves its whole ring, so that no call runs out of pages in its middle; it
// takes the pages themselves as it talks. A parked slot's pages and its reservation can leave the
// pool and come back. Nothing allocates after construction, except parking.
//
// Invariants: a page belongs to one slot's entry or is free, never both; pages taken by a slot
// never exceed its reservation; reservations never exceed the pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace antiphon::engine {

class KvPages {
 public:
  static constexpr int32_t kNone = -1;

  // Rings of `slot_pages` pages for `slots` slots on a pool of `pool_pages`.
  KvPages(int slots, int slot_pages, int pool_pages);

  // Promises a slot its whole ring. False if the pool is promised away; true again if it has it.
  bool Reserve(int slot) noexcept;
  // Gives back a slot's pages and reservation.
  void Release(int slot) noexcept;
  // Makes the page of a position the slot's own. REQUIRES: the slot is reserved.
  void Extend(int slot, int64_t position) noexcept;

  // Parking: the entries of the slot that hold pages. TakeBack reserves anew and gives each of
  // `entries` a page again (perhaps another); false, and nothing done, if the pool is promised
  // away.
  std::vector<int32_t> Entries(int slot) const;
  bool TakeBack(int slot, std::span<const int32_t> entries) noexcept;

  // [slots, slot_pages]: page or kNone.
  const int32_t* table() const { return table_.data(); }
  int32_t page(int slot, int entry) const { return table_[Index(slot, entry)]; }
  bool reserved(int slot) const { return reserved_[static_cast<size_t>(slot)]; }
  int slot_pages() const { return slot_pages_; }
  int pool_pages() const { return static_cast<int>(free_.size()); }
  int free_pages() const { return free_count_; }

 private:
  size_t Index(int slot, int entry) const {
    return static_cast<size_t>(slot * slot_pages_ + entry);
  }
  void Take(int slot, int entry) noexcept;

  int slot_pages_;
  int reservations_ = 0;
  int free_count_;
  size_t search_from_ = 0;
  std::vector<int32_t> table_;
  std::vector<bool> reserved_;  // by slot
  std::vector<bool> free_;      // by page
};

}  // namespace antiphon::engine
