#include "audio/playout_buffer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "audio/status.h"

namespace antiphon::audio {
namespace {

using std::chrono::milliseconds;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

constexpr int kFadeMs = 5;
constexpr double kMaxCorrection = 0.005;  // of pitch: not heard
// A proportional and integral controller on an error in seconds, critically damped or slower: the
// error shrinks in 1 / 0.2 = 5 s, a drift is learnt in 0.2 / 0.004 = 50 s. The two seconds that the
// window looks back stay well below the 5 s.
constexpr double kProportional = 0.2, kIntegral = 0.004;
constexpr double kMaxDrift = 0.004;
constexpr double kPullSeconds = 0.08;
constexpr int kEvidence = 13;  // pulls before we act on the window, a second
constexpr int kExcessMs = 60;
constexpr int kWidenMinMs = 10, kWidenMaxMs = 40;
constexpr int kLongestPacketMs = 120;  // of Opus
constexpr int kQuietPulls = 125;       // ten seconds
constexpr int kNarrowMs = 5;
constexpr milliseconds kNoJitter{500};
// Sound shorter than a frame and the margin is not held back for more when nothing came so long.
constexpr milliseconds kStale{100};
constexpr int kAttempts = 4;

int64_t Nanoseconds(PlayoutBuffer::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Rises from 0 to 1 with flat ends.
float Ramp(int64_t i, int64_t length) {
  const float x = (static_cast<float>(i) + 0.5F) / static_cast<float>(length);
  return x * x * (3.0F - 2.0F * x);
}

const PlayoutOptions& Checked(const PlayoutOptions& options) {
  const int frame_ms = options.frame_samples * 1000 / std::max(options.rate_hz, 1);
  if (options.rate_hz < 8000 || frame_ms < 20 || options.margin_ms < 0 ||
      options.max_margin_ms < options.margin_ms || options.bound_ms > 10'000 ||
      options.bound_ms < frame_ms + options.max_margin_ms) {
    throw AudioError(
        "playout: expected a rate of 8000 Hz or more, frames of 20 ms or more, and "
        "bound_ms of at least a frame and max_margin_ms, found " +
        std::to_string(options.rate_hz) + " Hz, " + std::to_string(frame_ms) + " ms, bound_ms " +
        std::to_string(options.bound_ms) + " and max_margin_ms " +
        std::to_string(options.max_margin_ms));
  }
  return options;
}

}  // namespace

PlayoutBuffer::PlayoutBuffer(const PlayoutOptions& options)
    : options_(Checked(options)),
      bound_(Samples(options.bound_ms)),
      fade_(Samples(kFadeMs)),
      ring_(std::bit_ceil(static_cast<size_t>(2 * bound_))),
      input_(static_cast<size_t>(SincKernel::kTaps + options.frame_samples * 102 / 100 + 2)),
      kernel_(SincKernel::Shared()),
      margin_(Samples(options.margin_ms)) {
  Reset();
}

void PlayoutBuffer::Reset() noexcept {
  for (auto& sample : ring_) sample.store(0.0F, kRelaxed);
  std::fill(input_.begin(), input_.end(), 0.0F);
  written_.store(0, kRelaxed);
  newest_ns_.store(0, kRelaxed);
  newest_samples_.store(0, kRelaxed);
  read_.store(0, kRelaxed);
  starved_.store(0, kRelaxed);
  dropped_.store(0, kRelaxed);
  margin_.store(Samples(options_.margin_ms), kRelaxed);
  ratio_.store(1.0, kRelaxed);
  expected_ = 0;
  fraction_ = 0.0;
  playing_ = false;
  drift_ = 0.0;
  readings_ = quiet_pulls_ = 0;
  calm_margin_ = Samples(options_.margin_ms);
  gap_began_ = Time();
}

void PlayoutBuffer::Push(std::span<const float> pcm, Time now) noexcept {
  const auto size = static_cast<int64_t>(pcm.size());
  if (size == 0) return;
  const int64_t count = std::min(size, bound_);
  if (size > count) dropped_.fetch_add(static_cast<uint64_t>(size - count), kRelaxed);
  pcm = pcm.last(static_cast<size_t>(count));
  const int64_t written = written_.load(kRelaxed);
  int64_t read = read_.load(kAcquire);
  while (written + count - read > bound_) {
    const int64_t cut = written + count - read - bound_;
    if (!read_.compare_exchange_weak(read, read + cut, std::memory_order_acq_rel, kAcquire)) {
      continue;
    }
    dropped_.fetch_add(static_cast<uint64_t>(cut), kRelaxed);
    break;
  }
  const size_t mask = ring_.size() - 1;
  for (size_t i = 0; i < pcm.size(); ++i) {
    // Release, and acquire at the reader: who sees this sample sees the cut that made room for it.
    ring_[(static_cast<size_t>(written) + i) & mask].store(pcm[i], kRelease);
  }
  newest_ns_.store(Nanoseconds(now), kRelaxed);
  newest_samples_.store(count, kRelaxed);
  written_.store(written + count, kRelease);
}

bool PlayoutBuffer::Pull(float* frame, Time now) noexcept {
  const double ratio = ratio_.load(kRelaxed);
  const double end = fraction_ + options_.frame_samples * ratio;
  const auto need = static_cast<int64_t>(end);
  const bool was_playing = playing_;
  const size_t mask = ring_.size() - 1;
  Take take;
  int64_t held = 0;
  bool spliced = false, done = false;
  int64_t read = read_.load(kAcquire);
  for (int attempt = 0; attempt < kAttempts && !done; ++attempt) {
    held = written_.load(kAcquire) - read;
    playing_ = was_playing;
    take = Decide(held, need, now);
    spliced = read != expected_ || take.skip > 0;
    float* place = &input_[static_cast<size_t>(SincKernel::kTaps + take.offset)];
    for (int64_t i = 0; i < take.count; ++i) {
      place[i] = ring_[static_cast<size_t>(read + take.skip + i) & mask].load(kAcquire);
    }
    const int64_t next = read + take.skip + take.count;
    done = next == read ||
           read_.compare_exchange_strong(read, next, std::memory_order_acq_rel, kAcquire);
    if (done) expected_ = next;
  }
  if (!done) {  // the producer cut again and again: as if there were nothing
    take = Take{};
    take.ends = was_playing;
    playing_ = false;
    held = 0;
  }
  Lay(take, need, spliced && was_playing);

  for (int i = 0; i < options_.frame_samples; ++i) {
    const double place = fraction_ + i * ratio;
    const auto whole = static_cast<int64_t>(place);
    frame[i] = kernel_.At(&input_[static_cast<size_t>(whole)], place - static_cast<double>(whole));
  }
  fraction_ = end - static_cast<double>(need);
  std::copy_n(input_.begin() + need, SincKernel::kTaps, input_.begin());

  if (take.skip > 0) {
    dropped_.fetch_add(static_cast<uint64_t>(take.skip), kRelaxed);
    readings_ = 0;
  }
  const bool whole = take.count == need;
  if (!whole) starved_.fetch_add(1, kRelaxed);
  if (was_playing && !playing_) Gap(need - held, now);
  if (playing_) Steer(held - take.skip - need - Outstanding(now));
  return whole;
}

PlayoutBuffer::Take PlayoutBuffer::Decide(int64_t held, int64_t need, Time now) noexcept {
  Take take;
  int64_t margin = margin_.load(kRelaxed);
  if (playing_) {
    take.count = std::clamp<int64_t>(held, 0, need);
    take.ends = take.count < need;
    playing_ = !take.ends;
    const int64_t excess = std::min(SmallestHeadroom(), held - need - Outstanding(now)) - margin;
    if (playing_ && readings_ >= kEvidence && excess > Samples(kExcessMs)) take.skip = excess;
    return take;
  }
  if (held <= 0) return take;
  if (calm_margin_ != margin && now - gap_began_ > kNoJitter) {  // the caller was away
    margin = calm_margin_;
    margin_.store(margin, kRelaxed);
  }
  const bool stale =
      Nanoseconds(now) - newest_ns_.load(kRelaxed) >= std::chrono::nanoseconds(kStale).count();
  int64_t ready = stale ? held : held - margin;
  if (!stale && ready < need) ready -= Outstanding(now);
  if (ready <= 0) return take;
  take.count = std::min(ready, need);
  take.begins = true;
  if (stale && ready < need) {
    take.ends = true;  // a last rest, nothing follows
  } else {
    take.offset = need - take.count;
    playing_ = true;
    calm_margin_ = margin;
  }
  return take;
}

// Puts silence and fades around the samples that were taken.
void PlayoutBuffer::Lay(const Take& take, int64_t need, bool spliced) noexcept {
  float* input = &input_[SincKernel::kTaps];
  const float last = input[-1];
  std::fill(input, input + take.offset, 0.0F);
  const int64_t length = std::min(fade_, take.count);
  if (take.begins || spliced) {
    const float from = take.begins ? 0.0F : last;
    for (int64_t i = 0; i < length; ++i) {
      float& sample = input[take.offset + i];
      sample = from + (sample - from) * Ramp(i, length);
    }
  }
  const int64_t end = take.offset + take.count;
  if (end == need) return;
  // The last value is held while it fades, which must be over at the frame's end.
  const float hold = take.ends ? input[end - 1] : 0.0F;
  std::fill(input + end, input + need, hold);
  if (!take.ends) return;
  const int64_t fade_from = std::min(end, need - fade_);
  for (int64_t i = fade_from; i < need; ++i) {
    const int64_t faded = i - fade_from;
    input[i] *= faded < fade_ ? 1.0F - Ramp(faded, fade_) : 0.0F;
  }
}

void PlayoutBuffer::Gap(int64_t missing, Time now) noexcept {
  calm_margin_ = margin_.load(kRelaxed);
  gap_began_ = now;
  const int64_t wider =
      calm_margin_ + std::clamp(missing, Samples(kWidenMinMs), Samples(kWidenMaxMs));
  margin_.store(std::min(wider, Samples(options_.max_margin_ms)), kRelaxed);
  ratio_.store(1.0 + drift_, kRelaxed);
  readings_ = quiet_pulls_ = 0;
}

// What the sound held will have shrunk by, in real time, when a packet like the last one is due.
int64_t PlayoutBuffer::Outstanding(Time now) const noexcept {
  const int64_t packet = std::min(newest_samples_.load(kRelaxed), Samples(kLongestPacketMs));
  const int64_t since_us = (Nanoseconds(now) - newest_ns_.load(kRelaxed)) / 1000;
  const int64_t packet_us = packet * 1'000'000 / options_.rate_hz;
  return std::clamp<int64_t>(packet_us - since_us, 0, packet_us) * options_.rate_hz / 1'000'000;
}

int64_t PlayoutBuffer::SmallestHeadroom() const noexcept {
  const auto count = static_cast<std::ptrdiff_t>(std::min(readings_, kWindow));
  return count == 0 ? 0 : *std::min_element(headrooms_.begin(), headrooms_.begin() + count);
}

void PlayoutBuffer::Steer(int64_t headroom) noexcept {
  headrooms_[static_cast<size_t>(readings_++ % kWindow)] = headroom;
  if (readings_ == 3 * kWindow) readings_ = 2 * kWindow;  // counts on without end
  if (++quiet_pulls_ >= kQuietPulls) {
    quiet_pulls_ = 0;
    margin_.store(
        std::max(margin_.load(kRelaxed) - Samples(kNarrowMs), Samples(options_.margin_ms)),
        kRelaxed);
  }
  if (readings_ < kEvidence) return;
  const double error =
      static_cast<double>(SmallestHeadroom() - margin_.load(kRelaxed)) / options_.rate_hz;
  drift_ = std::clamp(drift_ + kIntegral * kPullSeconds * std::clamp(error, -0.03, 0.03),
                      -kMaxDrift, kMaxDrift);
  ratio_.store(1.0 + std::clamp(kProportional * error + drift_, -kMaxCorrection, kMaxCorrection),
               kRelaxed);
}

PlayoutStats PlayoutBuffer::stats(Time now) const noexcept {
  PlayoutStats stats;
  const int64_t read = read_.load(kAcquire);
  const int64_t held = std::max<int64_t>(written_.load(kAcquire) - read, 0);
  const double per_ms = options_.rate_hz / 1000.0;
  stats.starved_frames = starved_.load(kRelaxed);
  stats.dropped_samples = dropped_.load(kRelaxed);
  stats.buffered_ms = static_cast<double>(held) / per_ms;
  if (held > 0) {
    const int64_t since = std::max<int64_t>(Nanoseconds(now) - newest_ns_.load(kRelaxed), 0);
    stats.oldest_ms = stats.buffered_ms + static_cast<double>(since) / 1e6;
  }
  stats.margin_ms = static_cast<double>(margin_.load(kRelaxed)) / per_ms;
  stats.ratio = ratio_.load(kRelaxed);
  return stats;
}

}  // namespace antiphon::audio
