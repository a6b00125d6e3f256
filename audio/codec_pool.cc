#include "audio/codec_pool.h"

#include <semaphore.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "audio/status.h"

namespace antiphon::audio {

// INVARIANT: `scheduled` is true while the strand is in the pool's queue or in a worker's hands, so
// it is there once at most: that is what keeps its jobs in order and one at a time.
struct CodecStrand::State {
  explicit State(size_t max_jobs) : jobs(max_jobs) {}

  bool waiting() const { return count > 0 || tick_due; }
  // Marks it scheduled; true if the caller must hand it to the pool.
  bool Schedule() { return !std::exchange(scheduled, true); }

  std::mutex mutex;
  std::condition_variable idle;  // nothing runs; or nothing waits and nothing runs
  std::vector<CodecJob> jobs;    // a ring
  size_t first = 0, count = 0;
  CodecJob tick_job;
  bool tick_due = false;
  bool scheduled = false, running = false;
  bool refusing = false;  // no more posts
  bool closed = false;    // and what waits is not run
  uint64_t dropped = 0;
};

struct CodecPool::State {
  State() { sem_init(&work, 0, 0); }
  ~State() { sem_destroy(&work); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // At least one post for each strand in `ready`, and one for each Wake.
  sem_t work;
  std::atomic<bool> stop{false}, tick{false};
  std::mutex mutex;
  std::deque<std::shared_ptr<CodecStrand::State>> ready;
  std::vector<std::weak_ptr<CodecStrand::State>> with_tick_job;
  std::vector<std::thread> threads;
};

CodecStrand::CodecStrand(CodecPool& pool, size_t max_jobs)
    : pool_(pool), state_(std::make_shared<State>(max_jobs)) {
  assert(max_jobs > 0);
}

CodecStrand::~CodecStrand() { Close(); }

bool CodecStrand::Post(CodecJob job) {
  {
    const std::lock_guard lock(state_->mutex);
    State& strand = *state_;
    if (strand.refusing || strand.count == strand.jobs.size()) {
      ++strand.dropped;
      return false;
    }
    strand.jobs[(strand.first + strand.count++) % strand.jobs.size()] = std::move(job);
    if (!strand.Schedule()) return true;
  }
  pool_.Ready(state_);
  return true;
}

void CodecStrand::SetTickJob(CodecJob job) {
  {
    const std::lock_guard lock(state_->mutex);
    assert(!state_->tick_job);
    state_->tick_job = std::move(job);
  }
  const std::lock_guard lock(pool_.state_->mutex);
  auto& strands = pool_.state_->with_tick_job;
  std::erase_if(strands, [](const auto& strand) { return strand.expired(); });
  strands.push_back(state_);
}

void CodecStrand::Drain() {
  std::unique_lock lock(state_->mutex);
  state_->refusing = true;
  state_->idle.wait(lock, [this] { return !state_->running && !state_->waiting(); });
}

void CodecStrand::Close() {
  std::vector<CodecJob> dropped;  // destroyed outside the lock: what they captured may post
  CodecJob tick_job;
  std::unique_lock lock(state_->mutex);
  State& strand = *state_;
  strand.refusing = strand.closed = true;
  strand.tick_due = false;
  for (; strand.count > 0; --strand.count, ++strand.dropped) {
    dropped.push_back(std::move(strand.jobs[strand.first]));
    strand.first = (strand.first + 1) % strand.jobs.size();
  }
  strand.idle.notify_all();  // a Drain in another thread
  strand.idle.wait(lock, [&strand] { return !strand.running; });
  tick_job = std::move(strand.tick_job);
  lock.unlock();
}

uint64_t CodecStrand::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

CodecPool::CodecPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1 || threads > 64) {
    throw AudioError("codec threads: expected 1 to 64, found " + std::to_string(threads));
  }
  for (int i = 0; i < threads; ++i) state_->threads.emplace_back([this] { Work(); });
}

CodecPool::~CodecPool() {
  state_->stop.store(true, std::memory_order_release);
  for (size_t i = 0; i < state_->threads.size(); ++i) sem_post(&state_->work);
  for (std::thread& thread : state_->threads) thread.join();
}

void CodecPool::Wake() noexcept {
  state_->tick.store(true, std::memory_order_release);
  sem_post(&state_->work);
}

void CodecPool::Ready(std::shared_ptr<CodecStrand::State> strand) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ready.push_back(std::move(strand));
  }
  sem_post(&state_->work);
}

void CodecPool::RunTickJobs() {
  std::vector<std::weak_ptr<CodecStrand::State>> strands;
  {
    const std::lock_guard lock(state_->mutex);
    strands = state_->with_tick_job;
  }
  for (const auto& weak : strands) {
    const auto strand = weak.lock();
    if (strand == nullptr) continue;
    {
      const std::lock_guard lock(strand->mutex);
      if (strand->refusing || !strand->tick_job) continue;
      strand->tick_due = true;
      if (!strand->Schedule()) continue;
    }
    Ready(strand);
  }
}

bool CodecPool::RunOne(CodecStrand::State& strand) {
  CodecJob job;
  bool tick = false;
  {
    const std::lock_guard lock(strand.mutex);
    strand.scheduled = strand.waiting();
    if (!strand.scheduled) return false;  // closed meanwhile
    strand.running = true;
    tick = std::exchange(strand.tick_due, false);
    if (!tick) {
      job = std::move(strand.jobs[strand.first]);
      strand.first = (strand.first + 1) % strand.jobs.size();
      --strand.count;
    }
  }
  if (tick) {
    strand.tick_job();  // Close takes it only when nothing runs
  } else {
    job();
    job = CodecJob();  // what it captured goes before Close returns
  }
  const std::lock_guard lock(strand.mutex);
  strand.running = false;
  strand.scheduled = strand.waiting();
  strand.idle.notify_all();
  return strand.scheduled;
}

void CodecPool::Work() {
  while (true) {
    while (sem_wait(&state_->work) != 0) {  // interrupted by a signal
    }
    if (state_->stop.load(std::memory_order_acquire)) return;
    if (state_->tick.exchange(false, std::memory_order_acq_rel)) RunTickJobs();
    std::shared_ptr<CodecStrand::State> strand;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->ready.empty()) continue;
      strand = std::move(state_->ready.front());
      state_->ready.pop_front();
    }
    if (RunOne(*strand)) Ready(std::move(strand));
  }
}

}  // namespace antiphon::audio
