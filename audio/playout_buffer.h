// The jitter buffer between a caller's network and the tick thread: as short as the arrivals allow
// and never longer than its bound.
//
// One producer thread pushes decoded sound as it arrives, one consumer, the tick thread, pulls a
// frame per tick. Neither ever waits: both advance the one reading position by compare-and-swap,
// the consumer by what it took, the producer by what it must cut to stay within the bound. A copy
// that was overtaken by a cut is thrown away and made again.
//
// How latency stays low. Headroom is the sound held beyond the frame about to be taken, as it would
// be just before the next packet comes (so it does not matter where between two packets a pull
// falls). The smallest headroom of the last two seconds (so the arrival jitter is in it) is held at
// `margin`: more would be delay without use, less a gap to come. Small errors, and the drift
// between the caller's clock and ours, are played away by resampling of at most 0.5 %. An excess
// of 60 ms for a second is cut. A gap widens the margin, ten quiet seconds narrow it by 5 ms; a gap
// of half a second was no jitter and leaves it alone. Sound comes back, after a gap and at the
// start, so that the margin is there from its first frame on. All ends and cuts are faded, 5 ms.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "audio/sinc_kernel.h"

namespace antiphon::audio {

struct PlayoutOptions {
  int rate_hz = 24000;
  int frame_samples = 1920;  // at least 20 ms
  int margin_ms = 10;        // headroom for a well-behaved caller
  int max_margin_ms = 120;   // and for the worst
  int bound_ms = 240;        // sound held beyond this is cut; at least a frame + max_margin_ms
};

// Counters grow until Reset.
struct PlayoutStats {
  uint64_t starved_frames = 0;   // frames that lacked sound, wholly or in part
  uint64_t dropped_samples = 0;  // cut, oldest first
  double buffered_ms = 0.0;      // sound held
  double oldest_ms = 0.0;  // age of the oldest sample held: buffered and time since the newest came
  double margin_ms = 0.0;  // what the smallest headroom should be
  double ratio = 1.0;      // samples taken per sample played
};

class PlayoutBuffer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Takes all its memory here. Throws AudioError for options that contradict each other.
  explicit PlayoutBuffer(const PlayoutOptions& options);
  PlayoutBuffer(const PlayoutBuffer&) = delete;
  PlayoutBuffer& operator=(const PlayoutBuffer&) = delete;

  // Producer: sound that arrived at `now`.
  void Push(std::span<const float> pcm, Time now) noexcept;

  // Consumer: fills frame [frame_samples], with silence where there is no sound. True if it is
  // whole. No lock, no allocation, a few ten microseconds.
  bool Pull(float* frame, Time now) noexcept;

  // Any thread. Dropped samples in milliseconds: dropped_samples * 1000 / rate_hz.
  PlayoutStats stats(Time now) const noexcept;

  // As new, counters too. REQUIRES: no other call at the same time.
  void Reset() noexcept;

 private:
  static constexpr int kWindow = 25;  // pulls looked back on, two seconds

  // What one pull does: `skip` samples are cut, `count` taken and put at `offset`.
  struct Take {
    int64_t skip = 0, count = 0, offset = 0;
    bool begins = false, ends = false;  // fade in, fade out
  };

  Take Decide(int64_t held, int64_t need, Time now) noexcept;
  void Lay(const Take& take, int64_t need, bool spliced) noexcept;
  void Gap(int64_t missing, Time now) noexcept;
  void Steer(int64_t headroom) noexcept;
  int64_t Outstanding(Time now) const noexcept;
  int64_t SmallestHeadroom() const noexcept;
  int64_t Samples(int ms) const noexcept { return int64_t{ms} * options_.rate_hz / 1000; }

  // Given to us.
  const PlayoutOptions options_;

  // Owned by us. The ring is twice the bound and a power of two: what the producer writes lies
  // never where the consumer may still rightly read.
  const int64_t bound_, fade_;  // samples
  std::vector<std::atomic<float>> ring_;
  std::vector<float> input_;  // [kTaps + the most one pull takes]: first the last pull's end
  const SincKernel& kernel_;

  // State, shared. INVARIANT: read_ <= written_ <= read_ + bound_.
  alignas(64) std::atomic<int64_t> written_{0};  // samples ever pushed
  std::atomic<int64_t> newest_ns_{0};            // when the newest came
  std::atomic<int64_t> newest_samples_{0};       // and how many with it
  alignas(64) std::atomic<int64_t> read_{0};     // samples ever taken or cut
  std::atomic<uint64_t> starved_{0}, dropped_{0};
  std::atomic<int64_t> margin_;  // samples
  std::atomic<double> ratio_{1.0};

  // State, the consumer's.
  int64_t expected_ = 0;   // read_ as we left it
  double fraction_ = 0.0;  // of a sample, where the next output lies
  bool playing_ = false;
  double drift_ = 0.0;  // integral part of ratio - 1
  std::array<int64_t, kWindow> headrooms_{};
  int readings_ = 0;         // of headrooms_ since the last gap or cut
  int quiet_pulls_ = 0;      // since the last gap or change of margin
  int64_t calm_margin_ = 0;  // before the gap we are in
  Time gap_began_;
};

}  // namespace antiphon::audio
