#include "daemon/tick_loop.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/daemon/fake_engine.h"
#include "tests/support/count_allocations.h"

namespace antiphon::daemon {
namespace {

using namespace std::chrono_literals;

class TickLoopTest : public ::testing::Test {
 protected:
  static constexpr int kLanes = 4;

  TickLoopTest() : engine(kLanes, &clock) {
    wake = eventfd(0, EFD_NONBLOCK);
    TickOptions options;
    options.lanes = kLanes;
    loop = std::make_unique<TickLoop>(engine, clock, options, wake);
    engine.tick_starts.reserve(4096);
    engine.tick_cost = 5ms;
  }
  ~TickLoopTest() override { close(wake); }

  void Turns(int count) {
    for (int i = 0; i < count; ++i) loop->Turn();
  }
  // What the I/O side does with a frame; true if there was one.
  bool Take(size_t index, OutFrame* frame) { return loop->lane(index).out.pop(*frame); }
  LanePhase Phase(size_t index) { return loop->lane(index).phase.load(); }
  uint64_t Late(size_t index) { return loop->lane(index).counters.late.load(); }
  uint64_t Wakes() {
    uint64_t count = 0;
    return read(wake, &count, sizeof(count)) == sizeof(count) ? count : 0;
  }
  void Feed(size_t index, float value, int frames) {
    const std::vector<float> pcm(static_cast<size_t>(frames * kFrameSamples), value);
    loop->lane(index).in.Push(pcm, clock.Now());
  }

  SimulatedClock clock;
  FakeEngine engine;
  FakeEngine::Prepared plain;
  int wake = -1;
  std::unique_ptr<TickLoop> loop;
};

TEST_F(TickLoopTest, OneFrameEachTickOnTheGrid) {
  loop->Join(0, plain);
  Turns(10);
  ASSERT_EQ(engine.tick_starts.size(), 10U);
  for (size_t i = 1; i < 10; ++i) {
    EXPECT_EQ(engine.tick_starts[i] - engine.tick_starts[i - 1], 80ms);
  }
  OutFrame frame;
  for (uint64_t number = 0; number < 10; ++number) {
    ASSERT_TRUE(Take(0, &frame));
    EXPECT_EQ(frame.number, number);
    EXPECT_EQ(frame.deadline, engine.tick_starts[number] + 80ms);
  }
  EXPECT_FALSE(Take(0, &frame));
  EXPECT_EQ(loop->stats().frames, 10U);
  EXPECT_EQ(loop->stats().missed, 0U);
  EXPECT_EQ(loop->stats().max_ms, 5.0);
}

TEST_F(TickLoopTest, WakesTheIoThreadOncePerTickHoweverManySessions) {
  for (size_t i = 0; i < kLanes; ++i) loop->Join(i, plain);
  Turns(1);
  EXPECT_EQ(Wakes(), 1U);
  Turns(3);
  EXPECT_EQ(Wakes(), 3U);
  EXPECT_EQ(engine.last_batch, 4U);
}

TEST_F(TickLoopTest, WithoutSessionsNothingHappens) {
  Turns(5);
  EXPECT_EQ(engine.ticks, 0);
  EXPECT_EQ(Wakes(), 0U);
  EXPECT_EQ(loop->stats().ticks, 5U);
  EXPECT_EQ(loop->last_turn(), clock.Now());
}

TEST_F(TickLoopTest, TheCallersSoundReachesTheEngineAndComesBack) {
  loop->Join(0, plain);
  Feed(0, 0.5F, 2);
  Turns(1);
  OutFrame frame;
  ASSERT_TRUE(Take(0, &frame));
  EXPECT_NEAR(frame.pcm[kFrameSamples / 2], 0.5F, 1e-3F);
  EXPECT_EQ(loop->lane(0).counters.starved, 0U);
  Turns(2);
  EXPECT_GE(loop->lane(0).counters.starved, 1U);
}

TEST_F(TickLoopTest, SilenceWhereTheEngineHasNoSound) {
  engine.mute_ticks = 2;
  loop->Join(0, plain);
  loop->lane(0).staged.pcm.fill(0.7F);
  Turns(2);
  OutFrame frame;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Take(0, &frame));
    EXPECT_EQ(frame.pcm, OutFrame{}.pcm);
  }
  EXPECT_EQ(loop->lane(0).counters.degraded, 0U) << "the model's own delay is no fault";
}

TEST_F(TickLoopTest, JoinAndLeaveInTheSameTick) {
  loop->Join(0, plain);
  loop->Join(1, plain);
  Turns(1);
  loop->Leave(1);
  loop->Join(2, plain);
  loop->Join(3, plain);
  loop->Leave(3);
  Turns(1);
  EXPECT_EQ(engine.last_batch, 2U);
  EXPECT_EQ(Phase(0), LanePhase::kRunning);
  EXPECT_EQ(Phase(1), LanePhase::kReleased);
  EXPECT_EQ(Phase(2), LanePhase::kRunning);
  EXPECT_EQ(Phase(3), LanePhase::kReleased);
  EXPECT_EQ(engine.joins, 4);
  EXPECT_EQ(engine.leaves, 2);
}

TEST_F(TickLoopTest, SlowEngineNeverBurstsAndCountsWhatItOwes) {
  engine.tick_cost = 90ms;
  loop->Join(0, plain);
  const Time begin = clock.Now();
  OutFrame frame;
  uint64_t handed_late = 0, last_number = 0;
  for (int i = 0; i < 100; ++i) {
    loop->Turn();
    while (Take(0, &frame)) {
      if (clock.Now() > frame.deadline) ++handed_late;
      last_number = frame.number;
    }
  }
  for (size_t i = 1; i < engine.tick_starts.size(); ++i) {
    EXPECT_GE(engine.tick_starts[i] - engine.tick_starts[i - 1], 60ms);
  }
  // Every grid point is a frame that was made (each late) or one skipped.
  const auto points = static_cast<uint64_t>((clock.Now() - begin) / 80ms);
  EXPECT_EQ(handed_late, 100U);
  EXPECT_GT(loop->stats().missed, 5U);
  EXPECT_NEAR(static_cast<double>(100 + Late(0)), static_cast<double>(points), 1.0);
  EXPECT_EQ(last_number + 1, 100 + Late(0)) << "the session's clock is real time";
}

TEST_F(TickLoopTest, MissedTicksAreNotMadeUp) {
  loop->Join(0, plain);
  Turns(3);
  clock.Advance(1s);
  const Time resumed = clock.Now();
  Turns(3);
  EXPECT_EQ(engine.ticks, 6);
  const Time grid = engine.tick_starts[0];
  EXPECT_GE(engine.tick_starts[3], resumed);
  EXPECT_EQ((engine.tick_starts[3] - grid) % 80ms, 0ms) << "back on the same grid";
  EXPECT_EQ(engine.tick_starts[4] - engine.tick_starts[3], 80ms);
  const auto skipped = static_cast<uint64_t>((engine.tick_starts[3] - grid) / 80ms) - 3;
  EXPECT_EQ(Late(0), skipped);
  EXPECT_EQ(loop->stats().missed, skipped);
  OutFrame frame;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Take(0, &frame));
  EXPECT_EQ(frame.number, 3 + skipped);
}

TEST_F(TickLoopTest, AFullRingLosesThatSessionsFramesOnly) {
  loop->Join(0, plain);
  loop->Join(1, plain);
  OutFrame frame;
  for (int i = 0; i < 30; ++i) {
    loop->Turn();
    ASSERT_TRUE(Take(1, &frame));
  }
  const auto kept = static_cast<uint64_t>(Lane::kRingFrames);
  EXPECT_EQ(Late(0), 30 - kept);
  EXPECT_EQ(Late(1), 0U);
  for (uint64_t number = 0; number < kept; ++number) {
    ASSERT_TRUE(Take(0, &frame));
    EXPECT_EQ(frame.number, number);
  }
  loop->Turn();
  ASSERT_TRUE(Take(0, &frame));
  EXPECT_EQ(frame.number, 30U);
}

TEST_F(TickLoopTest, PrefillNeverDelaysTheOthers) {
  FakeEngine::Prepared prompted;
  prompted.frames = 60;
  engine.tick_cost = 30ms;
  engine.chunk_cost = 12ms;
  loop->Join(0, plain);
  Turns(3);
  loop->Join(1, prompted);
  OutFrame frame;
  while (Take(0, &frame)) {
  }
  while (Phase(1) != LanePhase::kRunning) {
    loop->Turn();
    while (Take(0, &frame)) EXPECT_LE(clock.Now(), frame.deadline);
    ASSERT_LT(engine.ticks, 100);
  }
  EXPECT_EQ(engine.chunks, 60);
  EXPECT_EQ(loop->lane(1).prefill_done_frames, 60);
  EXPECT_EQ(Late(0), 0U);
  EXPECT_EQ(loop->stats().missed, 0U);
  for (size_t i = 1; i < engine.tick_starts.size(); ++i) {
    EXPECT_EQ(engine.tick_starts[i] - engine.tick_starts[i - 1], 80ms);
  }
}

TEST_F(TickLoopTest, PrefillUsesTheWholePeriodWhereNobodyTalks) {
  FakeEngine::Prepared prompted;
  prompted.frames = 16;
  engine.chunk_cost = 10ms;
  loop->Join(1, prompted);
  Turns(2);
  EXPECT_EQ(engine.chunks, 16);
  EXPECT_EQ(Phase(1), LanePhase::kRunning);
}

TEST_F(TickLoopTest, LeavingInPrefillEndsIt) {
  FakeEngine::Prepared prompted;
  prompted.frames = 1000;
  engine.chunk_cost = 10ms;
  loop->Join(0, prompted);
  Turns(2);
  loop->Leave(0);
  Turns(1);
  const int chunks = engine.chunks;
  Turns(5);
  EXPECT_EQ(engine.chunks, chunks);
  EXPECT_EQ(Phase(0), LanePhase::kReleased);
}

TEST_F(TickLoopTest, TheNextTenantGetsNothingOfTheLast) {
  loop->Join(0, plain);
  Feed(0, 0.5F, 5);
  Turns(2);
  Feed(0, 0.5F, 5);
  const uint32_t tenancy = loop->lane(0).tenancy;
  loop->Leave(0);
  Turns(1);
  ASSERT_EQ(Phase(0), LanePhase::kReleased);
  loop->Recycle(0);
  EXPECT_EQ(loop->lane(0).tenancy, tenancy + 1);
  loop->Join(0, plain);
  Turns(3);
  OutFrame frame;
  for (uint64_t number = 0; number < 3; ++number) {
    ASSERT_TRUE(Take(0, &frame));
    EXPECT_EQ(frame.number, number);
    EXPECT_EQ(frame.tenancy, tenancy + 1);
    EXPECT_EQ(frame.pcm, OutFrame{}.pcm);
  }
  EXPECT_EQ(loop->lane(0).counters.frames, 3U);
  EXPECT_EQ(loop->stats().frames, 5U) << "sums keep what past tenants had";
}

TEST_F(TickLoopTest, AnEngineWithoutRoomIsReportedAndLeavingStillWorks) {
  FakeEngine small(1, &clock);
  TickOptions options;
  options.lanes = 2;
  TickLoop tight(small, clock, options, -1);
  tight.Join(0, plain);
  tight.Join(1, plain);
  tight.Turn();
  EXPECT_EQ(tight.lane(1).phase, LanePhase::kRefused);
  tight.Leave(1);
  tight.Turn();
  EXPECT_EQ(tight.lane(1).phase, LanePhase::kReleased);
  EXPECT_EQ(small.leaves, 0);
}

TEST_F(TickLoopTest, TurnsAllocateNothing) {
  BeginCountingAllocations();
  ::operator delete(::operator new(8));
  ASSERT_EQ(EndCountingAllocations(), 1) << "the counter counts";
  FakeEngine::Prepared prompted;
  prompted.frames = 40;
  engine.chunk_cost = 10ms;
  for (size_t i = 0; i < 3; ++i) loop->Join(i, plain);
  Turns(10);
  Feed(0, 0.1F, 2);
  OutFrame frame;
  BeginCountingAllocations();
  for (int i = 0; i < 1000; ++i) {
    if (i == 100) loop->Join(3, prompted);
    if (i == 500) loop->Leave(3);
    if (i == 700) clock.Advance(1s);
    loop->Turn();
    for (size_t lane = 0; lane < kLanes; ++lane) Take(lane, &frame);
  }
  EXPECT_EQ(EndCountingAllocations(), 0);
}

// The real clock and thread: the grid holds, and Stop ends it.
TEST(TickLoopThreadTest, RunsOnItsOwnThread) {
  MonotonicClock clock;
  FakeEngine engine(2);
  const int wake = eventfd(0, EFD_NONBLOCK);
  TickOptions options;
  options.lanes = 2;
  TickLoop loop(engine, clock, options, wake);
  FakeEngine::Prepared plain;
  loop.Start();
  loop.Join(0, plain);
  OutFrame frame;
  int frames = 0;
  while (frames < 5) {
    pollfd ready{wake, POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 5000), 1);
    uint64_t count = 0;
    ASSERT_EQ(read(wake, &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
    while (loop.lane(0).out.pop(frame)) ++frames;
  }
  loop.Leave(0);
  while (loop.lane(0).phase != LanePhase::kReleased) {
    pollfd ready{wake, POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 5000), 1);
    uint64_t count = 0;
    ASSERT_GE(read(wake, &count, sizeof(count)), 0);
  }
  loop.Recycle(0);
  loop.Stop();
  EXPECT_GE(loop.stats().frames, 5U);
  close(wake);
}

}  // namespace
}  // namespace antiphon::daemon
