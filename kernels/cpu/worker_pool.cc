#include "kernels/cpu/worker_pool.h"

#include <utility>

#include "kernels/cpu/core_binding.h"

namespace antiphon::kernels::cpu {
namespace {

// A run's pieces follow each other within microseconds, runs within a tick; past this a worker
// sleeps until the next run.
constexpr int kSpinsBeforeSleep = 20000;
// At a barrier the others are at work, unless the machine has taken their core away: then give ours
// up.
constexpr int kSpinsBeforeYield = 4000;

inline void Pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WorkerPool::WorkerPool(int workers, bool pin, std::function<void(int)> body)
    : workers_(workers), pin_(pin), body_(std::move(body)) {
  AllowedCores();
  for (int worker = 1; worker < workers_; ++worker) {
    threads_.emplace_back([this, worker] { Loop(worker); });
  }
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_relaxed);
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Loop(int worker) {
  if (pin_ && CPU_COUNT(&AllowedCores()) >= workers_) BindToCore(worker);
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
      if (run_.load(std::memory_order_acquire) != seen) break;
      Pause();
    }
    run_.wait(seen, std::memory_order_acquire);
    seen = run_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    body_(worker);
    Meet();
  }
}

void WorkerPool::Run() noexcept {
  if (workers_ > 1) {
    run_.fetch_add(1, std::memory_order_release);
    run_.notify_all();
  }
  body_(0);
  Meet();
}

void WorkerPool::Meet() noexcept {
  if (workers_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(workers_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spin = 0; phase_.load(std::memory_order_acquire) == phase; ++spin) {
    if (spin < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace antiphon::kernels::cpu
