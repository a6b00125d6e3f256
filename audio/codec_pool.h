// A few threads for the sessions' Opus work, which so is spread over cores and sits neither on the
// tick thread nor on the I/O thread.
//
//   any thread --Post--> strand (one per session, bounded) --ready--> pool --> a worker
//   tick thread --Wake--> every strand's tick job, once
//
// Jobs of one strand run in order and never two at a time; strands take turns, job by job, so a
// busy session cannot keep the others waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "audio/codec_job.h"

namespace antiphon::audio {

class CodecPool;

// The jobs of one session. Any thread may call. REQUIRES: jobs do not throw; Drain and Close are
// not called from a job of the same strand.
class CodecStrand {
 public:
  static constexpr size_t kMaxJobs = 256;

  // All memory for `max_jobs` waiting jobs is taken here. REQUIRES: the pool outlives the strand.
  explicit CodecStrand(CodecPool& pool, size_t max_jobs = kMaxJobs);
  ~CodecStrand();  // Close
  CodecStrand(const CodecStrand&) = delete;
  CodecStrand& operator=(const CodecStrand&) = delete;

  // False where max_jobs are waiting or the strand is closed. The job is then dropped and counted:
  // a session whose codec work piles up loses its newest, and nobody else anything.
  bool Post(CodecJob job);

  // The job that CodecPool::Wake starts. Wakes that come while one is waiting are one.
  // REQUIRES: called once, before the first Wake that should run it.
  void SetTickJob(CodecJob job);

  // Takes no more jobs and returns when the waiting ones have run.
  void Drain();
  // Takes no more jobs and drops those that wait. When it returns none runs, and what they captured
  // is destroyed.
  void Close();

  // Jobs refused or dropped so far.
  uint64_t dropped() const;

 private:
  friend class CodecPool;
  struct State;
  CodecPool& pool_;
  const std::shared_ptr<State> state_;
};

class CodecPool {
 public:
  // Starts 1 to 64 threads; throws AudioError for another number.
  explicit CodecPool(int threads);
  // Waits for the jobs in progress. REQUIRES: all strands are closed or gone.
  ~CodecPool();
  CodecPool(const CodecPool&) = delete;
  CodecPool& operator=(const CodecPool&) = delete;

  // Runs the tick job of every strand that has one. For the tick thread, once a tick: one atomic
  // store and one semaphore post, no lock, no allocation, whatever the number of strands.
  void Wake() noexcept;

 private:
  friend class CodecStrand;
  struct State;
  void Ready(std::shared_ptr<CodecStrand::State> strand);
  void RunTickJobs();
  // Runs one job of the strand; true if more wait.
  static bool RunOne(CodecStrand::State& strand);
  void Work();
  const std::unique_ptr<State> state_;
};

}  // namespace antiphon::audio
