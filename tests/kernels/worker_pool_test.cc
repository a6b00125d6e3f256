#include "kernels/cpu/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/core_binding.h"

namespace antiphon::kernels::cpu {
namespace {

// Each phase every worker reads what all wrote in the phase before: a barrier that lets one through
// too early gives a wrong sum (and a race that the thread sanitizer sees).
TEST(WorkerPoolTest, WhatWasWrittenBeforeAMeetingIsSeenAfterIt) {
  for (const int workers : {1, 2, 3, 5}) {
    constexpr int kPhases = 50;
    const auto count = static_cast<size_t>(workers);
    std::vector<int64_t> before(count, 1), after(count);
    WorkerPool* self = nullptr;
    WorkerPool pool(workers, true, [&](int worker) {
      for (int phase = 0; phase < kPhases; ++phase) {
        int64_t sum = 0;
        for (const int64_t value : before) sum += value % 1000003;
        after[static_cast<size_t>(worker)] = sum + worker;
        self->Meet();
        before[static_cast<size_t>(worker)] = after[static_cast<size_t>(worker)];
        self->Meet();
      }
    });
    self = &pool;
    std::vector<int64_t> expected(count, 1);
    for (int run = 0; run < 20; ++run) {
      pool.Run();
      for (int phase = 0; phase < kPhases; ++phase) {
        int64_t sum = 0;
        for (const int64_t value : expected) sum += value % 1000003;
        for (size_t w = 0; w < count; ++w) expected[w] = sum + static_cast<int64_t>(w);
      }
      EXPECT_EQ(before, expected) << workers << " workers, run " << run;
    }
  }
}

// A pool made by a thread that is bound already: its workers must not inherit that one core, or two
// share it and every figure is half of what it should be.
TEST(WorkerPoolTest, WorkersOfABoundThreadHaveCoresOfTheirOwn) {
  const int workers = CPU_COUNT(&AllowedCores());
  if (workers < 2) GTEST_SKIP() << "one core only";
  std::vector<cpu_set_t> bound(static_cast<size_t>(workers));
  std::thread([&] {
    BindToCore(0);
    WorkerPool pool(workers, true, [&](int worker) {
      sched_getaffinity(0, sizeof(cpu_set_t), &bound[static_cast<size_t>(worker)]);
    });
    pool.Run();
  }).join();
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& one : bound) {
    EXPECT_EQ(CPU_COUNT(&one), 1);
    CPU_OR(&all, &all, &one);
  }
  EXPECT_TRUE(CPU_EQUAL(&all, &AllowedCores()));
}

// Workers that went to sleep between runs wake for the next.
TEST(WorkerPoolTest, WakesAfterAPause) {
  std::atomic<int> ran{0};
  WorkerPool pool(3, false, [&](int) { ran.fetch_add(1); });
  for (int run = 1; run <= 3; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.Run();
    EXPECT_EQ(ran.load(), 3 * run);
  }
}

}  // namespace
}  // namespace antiphon::kernels::cpu
