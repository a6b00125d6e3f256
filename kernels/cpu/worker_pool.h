// A persistent team of pinned threads that walk the same list of work in step.
//
// The calling thread is worker 0. Between runs the others spin for a moment and then sleep; within
// a run they meet at a light barrier. Run and Meet allocate nothing and take no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace antiphon::kernels::cpu {

class WorkerPool {
 public:
  // body(worker) is what every run does; it may call Meet. `pin`: bind worker i > 0 to the i-th
  // core that the process may use.
  WorkerPool(int workers, bool pin, std::function<void(int)> body);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int workers() const { return workers_; }

  // Runs body(0) here and body(1..) on the other threads; returns when all are done.
  void Run() noexcept;

  // Barrier for all workers, inside body only: what any wrote before it, all see after it.
  void Meet() noexcept;

 private:
  void Loop(int worker);

  // Given to us.
  const int workers_;
  const bool pin_;
  const std::function<void(int)> body_;
  // State. Each on a cache line of its own.
  alignas(64) std::atomic<uint32_t> run_{0};      // counts runs; workers wait for it to change
  alignas(64) std::atomic<uint32_t> arrived_{0};  // workers at the barrier
  alignas(64) std::atomic<uint32_t> phase_{0};    // counts meetings
  std::atomic<bool> stop_{false};
  // Owned by us.
  std::vector<std::thread> threads_;
};

}  // namespace antiphon::kernels::cpu
