#include "audio/codec_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "audio/status.h"

namespace antiphon::audio {
namespace {

// Holds a job up until it is let go.
struct Gate {
  std::promise<void> entered, open;
  std::shared_future<void> opened{open.get_future()};
  auto Job() {
    return [this] {
      entered.set_value();
      opened.wait();
    };
  }
};

TEST(CodecPoolTest, JobsOfAStrandRunInOrderAndNeverTwoAtATime) {
  constexpr int kStrands = 8, kJobs = 2000;
  struct Session {
    std::vector<int> seen;  // no lock: the strand is what keeps it whole
    std::atomic<int> inside{0};
    int overlaps = 0;
  };
  std::vector<Session> sessions(kStrands);
  CodecPool pool(4);
  {
    std::vector<std::unique_ptr<CodecStrand>> strands;
    for (int i = 0; i < kStrands; ++i) strands.push_back(std::make_unique<CodecStrand>(pool));
    std::vector<std::thread> posters;
    for (size_t i = 0; i < kStrands; ++i) {
      posters.emplace_back([&, i] {
        for (int n = 0; n < kJobs; ++n) {
          Session* session = &sessions[i];
          const auto job = [session, n] {
            if (session->inside.fetch_add(1) != 0) ++session->overlaps;
            session->seen.push_back(n);
            session->inside.fetch_sub(1);
          };
          while (!strands[i]->Post(job)) std::this_thread::yield();
        }
      });
    }
    for (auto& poster : posters) poster.join();
    for (auto& strand : strands) strand->Drain();
  }
  for (const Session& session : sessions) {
    EXPECT_EQ(session.overlaps, 0);
    ASSERT_EQ(session.seen.size(), static_cast<size_t>(kJobs));
    for (int n = 0; n < kJobs; ++n) ASSERT_EQ(session.seen[static_cast<size_t>(n)], n);
  }
}

TEST(CodecPoolTest, AFullStrandRefusesItsNewestAndHurtsNobodyElse) {
  CodecPool pool(2);
  CodecStrand busy(pool, 3), other(pool);
  Gate gate;
  ASSERT_TRUE(busy.Post(gate.Job()));
  gate.entered.get_future().wait();
  std::vector<int> seen;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(busy.Post([&seen, i] { seen.push_back(i); }), i < 3);
  EXPECT_EQ(busy.dropped(), 2U);
  std::promise<void> ran;
  ASSERT_TRUE(other.Post([&ran] { ran.set_value(); }));
  ran.get_future().wait();
  gate.open.set_value();
  busy.Drain();
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(busy.Post([] {})) << "drained strands take nothing more";
}

TEST(CodecPoolTest, StrandsTakeTurns) {
  CodecPool pool(1);
  CodecStrand first(pool), second(pool);
  Gate gate;
  first.Post(gate.Job());
  gate.entered.get_future().wait();
  std::string order;
  for (int i = 0; i < 3; ++i) first.Post([&order] { order += 'a'; });
  for (int i = 0; i < 3; ++i) second.Post([&order] { order += 'b'; });
  gate.open.set_value();
  first.Drain();
  second.Drain();
  EXPECT_EQ(order, "bababa");
}

TEST(CodecPoolTest, ClosingWaitsForTheJobInProgressAndDropsTheRest) {
  CodecPool pool(1);
  auto strand = std::make_unique<CodecStrand>(pool);
  Gate gate;
  const auto token = std::make_shared<int>(0);
  std::atomic<bool> finished{false}, ran{false};
  strand->Post([&gate, &finished, token] {
    gate.entered.set_value();
    gate.opened.wait();
    finished = true;
  });
  gate.entered.get_future().wait();
  for (int i = 0; i < 10; ++i) strand->Post([&ran, token] { ran = true; });
  std::thread opener([&] {
    while (strand->dropped() == 0) std::this_thread::yield();  // Close has begun
    EXPECT_FALSE(strand->Post([] {}));
    gate.open.set_value();
  });
  strand->Close();
  EXPECT_TRUE(finished);
  EXPECT_FALSE(ran);
  EXPECT_EQ(token.use_count(), 1) << "what the jobs captured is gone";
  opener.join();
  EXPECT_EQ(strand->dropped(), 11U);
  strand.reset();
  CodecStrand next(pool);
  std::promise<void> done;
  next.Post([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(CodecPoolTest, AWakeRunsEveryTickJobAndWakesWhileOneWaitsAreOne) {
  CodecPool pool(2);
  constexpr int kStrands = 20;
  std::vector<std::unique_ptr<CodecStrand>> strands;
  std::atomic<int> ticks{0};
  for (int i = 0; i < kStrands; ++i) {
    strands.push_back(std::make_unique<CodecStrand>(pool));
    strands.back()->SetTickJob([&ticks] { ticks.fetch_add(1); });
  }
  for (int n = 1; n <= 50; ++n) {
    pool.Wake();
    while (ticks < n * kStrands) std::this_thread::yield();
  }
  Gate gate;
  strands[0]->Post(gate.Job());
  gate.entered.get_future().wait();
  strands.resize(1);
  ticks = 0;
  std::promise<void> later;
  CodecStrand watch(pool);
  watch.SetTickJob([&later, first = true]() mutable {
    if (std::exchange(first, false)) later.set_value();
  });
  for (int i = 0; i < 5; ++i) pool.Wake();
  later.get_future().wait();
  gate.open.set_value();
  strands[0]->Drain();
  EXPECT_GE(ticks, 1);
  EXPECT_LE(ticks, 5);
  strands.clear();
  pool.Wake();  // of strands that are gone nothing is run
  std::promise<void> done;
  CodecStrand last(pool);
  last.Post([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(CodecPoolTest, SessionsThatComeAndGoUnderLoad) {
  CodecPool pool(3);
  std::atomic<bool> stop{false};
  std::thread ticker([&] {
    while (!stop) {
      pool.Wake();
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 200; ++round) {
    auto value = std::make_unique<int>(0);
    CodecStrand strand(pool);
    strand.SetTickJob([&value] { ++*value; });
    for (int i = 0; i < 10; ++i) strand.Post([&value] { ++*value; });
    strand.Close();
    value.reset();  // nobody touches it any more
  }
  stop = true;
  ticker.join();
}

TEST(CodecPoolTest, ThreadCountsOutOfRangeAreNamed) {
  EXPECT_THROW(CodecPool(0), AudioError);
  EXPECT_THROW(CodecPool(65), AudioError);
}

}  // namespace
}  // namespace antiphon::audio
