// Real-time scheduling of the threads that a tick depends on.
#pragma once

namespace antiphon::daemon {

// The calling thread runs with SCHED_FIFO `priority` (1..99) until the scope ends; 0 changes
// nothing. Threads made meanwhile inherit it for good: make the engine inside one, so that its
// workers are as urgent as the tick thread that waits for them. Otherwise a waiting tick thread may
// keep a worker from the very core that it is bound to.
class RealtimeScope {
 public:
  explicit RealtimeScope(int priority);
  ~RealtimeScope();
  RealtimeScope(const RealtimeScope&) = delete;
  RealtimeScope& operator=(const RealtimeScope&) = delete;

  // 0, or the errno value that says why not.
  int error() const { return error_; }

 private:
  int error_ = 0;
  int old_policy_ = 0, old_priority_ = 0;
  bool changed_ = false;
};

// Binds the calling thread to the first core that the process may use: the one that the engine's
// workers leave to whoever runs a tick.
void BindToFirstCore();

}  // namespace antiphon::daemon
