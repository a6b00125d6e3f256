// The allocator against a plain model, over long random lives of many slots.
#include "engine/kv_pages.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "kernels/kv_cache.h"

namespace antiphon::engine {
namespace {

constexpr int kSlots = 7, kSlotPages = 5, kPool = 4 * kSlotPages + 2;

// What must hold, written down without any cleverness.
class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) {}

  void Step() {
    const int slot = Pick(kSlots);
    switch (Pick(6)) {
      case 0:
        Join(slot);
        break;
      case 1:
        Leave(slot);
        break;
      case 2:
        Park(slot);
        break;
      case 3:
        Resume(slot);
        break;
      default:
        Talk(slot);
    }
    Check();
  }

  int wraps() const { return wraps_; }
  int refusals() const { return refusals_; }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void Join(int slot) {
    if (position_.count(slot) > 0 || parked_.count(slot) > 0) return;
    const bool fits = (position_.size() + 1) * kSlotPages <= kPool;
    ASSERT_EQ(pages_.Reserve(slot), fits);
    if (fits) position_[slot] = 0;
    refusals_ += fits ? 0 : 1;
  }

  void Leave(int slot) {
    position_.erase(slot);
    parked_.erase(slot);
    pages_.Release(slot);
  }

  void Talk(int slot) {
    const auto it = position_.find(slot);
    if (it == position_.end()) return;
    for (int i = Pick(3 * kernels::kKvPage); i >= 0; --i) pages_.Extend(slot, it->second++);
    if (it->second > kSlotPages * kernels::kKvPage) ++wraps_;
  }

  void Park(int slot) {
    const auto it = position_.find(slot);
    if (it == position_.end()) return;
    parked_[slot] = {it->second, pages_.Entries(slot)};
    position_.erase(it);
    pages_.Release(slot);
  }

  void Resume(int slot) {
    const auto it = parked_.find(slot);
    if (it == parked_.end()) return;
    const bool fits = (position_.size() + 1) * kSlotPages <= kPool;
    ASSERT_EQ(pages_.TakeBack(slot, it->second.entries), fits);
    if (!fits) return;
    EXPECT_EQ(pages_.Entries(slot), it->second.entries);
    position_[slot] = it->second.position;
    parked_.erase(it);
  }

  // Every page is in one place, and a slot has just the pages of what it said.
  void Check() const {
    std::set<int32_t> taken;
    for (int slot = 0; slot < kSlots; ++slot) {
      const auto it = position_.find(slot);
      const int64_t positions = it == position_.end() ? 0 : it->second;
      const int64_t expected =
          std::min<int64_t>((positions + kernels::kKvPage - 1) / kernels::kKvPage, kSlotPages);
      int64_t found = 0;
      for (int entry = 0; entry < kSlotPages; ++entry) {
        const int32_t page = pages_.page(slot, entry);
        if (page == KvPages::kNone) continue;
        ++found;
        ASSERT_GE(page, 0);
        ASSERT_LT(page, kPool);
        ASSERT_TRUE(taken.insert(page).second) << "page " << page << " has two owners";
        ASSERT_EQ(pages_.table()[slot * kSlotPages + entry], page);
      }
      ASSERT_EQ(found, expected) << "slot " << slot;
    }
    ASSERT_EQ(pages_.free_pages() + static_cast<int>(taken.size()), kPool);
  }

  struct Parked {
    int64_t position;
    std::vector<int32_t> entries;
  };
  std::mt19937 random_;
  KvPages pages_{kSlots, kSlotPages, kPool};
  std::map<int, int64_t> position_;
  std::map<int, Parked> parked_;
  int wraps_ = 0, refusals_ = 0;
};

TEST(KvPagesTest, NoPageIsEverSharedOrLost) {
  int wraps = 0, refusals = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Model model(seed);
    for (int step = 0; step < 2000 && !testing::Test::HasFatalFailure(); ++step) model.Step();
    wraps += model.wraps();
    refusals += model.refusals();
  }
  // The lives that the test is about did happen.
  EXPECT_GT(wraps, 100);
  EXPECT_GT(refusals, 100);
}

TEST(KvPagesTest, ASlotAloneGetsConsecutivePages) {
  KvPages pages(2, 4, 8);
  ASSERT_TRUE(pages.Reserve(1));
  for (int64_t p = 0; p < 4 * kernels::kKvPage; ++p) pages.Extend(1, p);
  for (int entry = 1; entry < 4; ++entry) {
    EXPECT_EQ(pages.page(1, entry), pages.page(1, entry - 1) + 1);
  }
}

TEST(KvPagesTest, AReservationIsTheWholeRing) {
  KvPages pages(3, 4, 9);
  EXPECT_TRUE(pages.Reserve(0));
  EXPECT_TRUE(pages.Reserve(1));
  EXPECT_FALSE(pages.Reserve(2)) << "one page is left, which is no ring";
  EXPECT_TRUE(pages.Reserve(1)) << "already has it";
  pages.Release(0);
  EXPECT_TRUE(pages.Reserve(2));
}

}  // namespace
}  // namespace antiphon::engine
