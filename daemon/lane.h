// What a session's threads share: sound going in, frames coming out, and counters.
//
//   codec thread --PlayoutBuffer--> tick thread --ring of OutFrame--> codec thread
//
// Lanes are made at start and never move. A lane has one tenant at a time, and each side hands it
// on only when it has let go of it: the tick thread says kReleased once the engine's slot is free,
// then the I/O thread clears the lane for the next.
#pragma once

#include <array>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>

#include "audio/playout_buffer.h"
#include "daemon/clock.h"
#include "engine/engine.h"

namespace antiphon::daemon {

inline constexpr int kFrameSamples = 1920;
inline constexpr int kFrameMs = 80;

// One frame of speech on its way out.
struct OutFrame {
  uint64_t number = 0;   // ticks since the session's clock began; skipped ones count
  uint32_t tenancy = 0;  // of the lane when it was made
  int32_t text_token = engine::FrameIo::kNoText;
  Time deadline;  // the next tick; handed to the transport after it, the frame is late
  std::array<float, kFrameSamples> pcm;
};

enum class LanePhase : uint8_t {
  kFree,      // the I/O thread's, no tenant
  kJoining,   // the join is on its way to the tick thread
  kPrefill,   // the tenant's prompt runs through the model
  kRunning,   // one frame each tick
  kRefused,   // the engine had no slot; needs Leave all the same
  kReleased,  // the tick thread has let go
};

// Since the session's clock began. Any thread reads.
struct LaneCounters {
  std::atomic<uint64_t> frames{0};    // produced
  std::atomic<uint64_t> late{0};      // skipped, dropped, or handed over after the deadline
  std::atomic<uint64_t> degraded{0};  // silence, because the engine had no sound (after its first)
  std::atomic<uint64_t> starved{0};   // the caller's sound was missing, wholly or in part
};

struct Lane {
  explicit Lane(const audio::PlayoutOptions& playout) : in(playout) {}

  // Twelve frames are nearly a second. Full, the newest frame is dropped and counted late.
  static constexpr size_t kRingFrames = 12;

  audio::PlayoutBuffer in;
  boost::lockfree::spsc_queue<OutFrame, boost::lockfree::capacity<kRingFrames>> out;
  LaneCounters counters;
  std::atomic<LanePhase> phase{LanePhase::kFree};
  std::atomic<int> prefill_done_frames{0};

  // Written by the I/O thread while the lane is free.
  uint32_t tenancy = 0;

  // The tick thread's.
  engine::SlotId slot;
  bool joined = false;
  bool spoke = false;  // the engine's first sound has come
  int prefill_total_frames = 0;
  uint64_t next_number = 0;
  std::array<float, kFrameSamples> pcm_in{};
  OutFrame staged;
};

}  // namespace antiphon::daemon
