// The engine's clock: a thread that runs one turn every 80 ms on an absolute grid.
//
//   turn: wait for the grid point | joins, leaves | gather | Engine::Tick | scatter | wake the I/O
//         thread once | prompts of joining sessions, in what is left before the next grid point
//
// A turn that cannot begin within a quarter of a period of its grid point is skipped: every
// session's clock goes on, the frame counts as late, and nothing is made up afterwards.
//
// Turn() allocates nothing, takes no lock, logs nothing; its system calls are the clock's wait and
// one write to the wake descriptor.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/clock.h"
#include "daemon/edge_histogram.h"
#include "daemon/histogram.h"
#include "daemon/lane.h"
#include "engine/engine.h"

namespace antiphon::daemon {

struct TickOptions {
  int lanes = 4;  // sessions at once, 1..1024
  std::chrono::milliseconds period{kFrameMs};
  std::chrono::milliseconds guard{10};  // of each period that prompts leave alone
  // SCHED_FIFO 1..99; 0: ordinary scheduling. The engine should have been made inside a
  // RealtimeScope of the same priority.
  int realtime_priority = 20;
  audio::PlayoutOptions playout;
};

struct TickStats {
  uint64_t ticks = 0;   // turns that ran
  uint64_t missed = 0;  // grid points skipped while sessions were running
  uint64_t frames = 0, late = 0, degraded = 0, starved = 0;  // sums over all sessions, ever
  double p50_ms = 0, p99_ms = 0, p999_ms = 0, max_ms = 0;    // of turns with sessions, up to wake
};

// What a turn spends its time on. kTotal is a whole turn up to the wake.
enum class TickPart : uint8_t { kTotal, kStart, kGather, kEngine, kScatter, kPrefill };
inline constexpr size_t kTickParts = 6;
const char* TickPartName(TickPart part);

// One lane's counters over all its tenants.
struct LaneTotals {
  uint64_t frames = 0, late = 0, degraded = 0, starved = 0;
};

class TickLoop {
 public:
  // wake_fd: an eventfd written after a turn that changed anything for the I/O thread; -1: none.
  TickLoop(engine::Engine& engine, Clock& clock, const TickOptions& options, int wake_fd);
  ~TickLoop();  // stops
  TickLoop(const TickLoop&) = delete;
  TickLoop& operator=(const TickLoop&) = delete;

  // Starts and ends the thread. Says in one log line where real-time priority is not permitted.
  void Start();
  void Stop();

  // I/O thread.
  size_t lanes() const { return lanes_.size(); }
  Lane& lane(size_t index) { return *lanes_[index]; }
  const Lane& lane(size_t index) const { return *lanes_[index]; }
  // REQUIRES: the lane is kFree; `session` outlives kReleased (or Stop).
  void Join(size_t index, const engine::PreparedSession& session) noexcept;
  // REQUIRES: joined before, not yet left. The lane becomes kReleased within a turn.
  void Leave(size_t index) noexcept;
  // A released lane becomes free and empty. Its counters go into the sums of stats().
  // REQUIRES: kReleased, and no other thread uses the lane.
  void Recycle(size_t index) noexcept;
  TickStats stats() const;
  LaneTotals totals(size_t index) const;

  // Any thread: when the last turn began; the epoch before the first.
  Time last_turn() const noexcept { return last_turn_.load(std::memory_order_relaxed); }

  // Any thread: times of the turns' parts, and the engine's pages after the last turn.
  const EdgeHistogram& part(TickPart part) const { return parts_[static_cast<size_t>(part)]; }
  engine::KvUse kv_use() const noexcept {
    return {kv_pages_.load(std::memory_order_relaxed), kv_free_.load(std::memory_order_relaxed)};
  }

  // One turn, by the thread that Start made, or by a test instead of it.
  void Turn() noexcept;

 private:
  struct Command {
    enum class Kind : uint8_t { kJoin, kLeave } kind = Kind::kJoin;
    uint32_t lane = 0;
    const engine::PreparedSession* session = nullptr;
  };

  void Run();
  void Skip(Time now) noexcept;
  void ApplyCommands() noexcept;
  void Apply(const Command& command) noexcept;
  void Gather(Time now) noexcept;
  void Scatter() noexcept;
  void Prefill() noexcept;
  void CreditPrefill() noexcept;
  void Wake() noexcept;
  void Took(TickPart part, Duration duration) noexcept {
    parts_[static_cast<size_t>(part)].Add(duration);
  }

  // Given to us.
  engine::Engine& engine_;
  Clock& clock_;
  const TickOptions options_;
  const int wake_fd_;

  // Owned by us.
  std::vector<std::unique_ptr<Lane>> lanes_;
  // A lane has at most a join and a leave under way, so this cannot fill up.
  boost::lockfree::spsc_queue<Command> commands_;
  std::thread thread_;

  // State shared with readers.
  std::atomic<bool> stop_{false};
  std::atomic<Time> last_turn_{};
  std::atomic<uint64_t> ticks_{0}, missed_{0};
  Histogram durations_;
  std::array<EdgeHistogram, kTickParts> parts_;
  std::atomic<int> kv_pages_{0}, kv_free_{0};
  std::vector<LaneTotals> retired_;  // of tenants that left, by lane; I/O thread

  // The tick thread's.
  std::vector<uint32_t> active_;  // lanes in the engine; its capacity is lanes()
  std::vector<engine::FrameIo> frames_;
  std::vector<uint32_t> frame_lanes_;
  Time next_{};  // grid point of the next turn
  bool started_ = false;
  bool changed_ = false;  // something the I/O thread must look at
  size_t prefilling_ = 0;
  size_t credit_ = 0;  // whose prompt the next chunk is taken for
  Duration chunk_cost_{0};
};

}  // namespace antiphon::daemon
