#include "daemon/tick_loop.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "daemon/realtime.h"

namespace antiphon::daemon {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

const char* TickPartName(TickPart part) {
  constexpr const char* kNames[] = {"total", "start", "gather", "engine", "scatter", "prefill"};
  return kNames[static_cast<size_t>(part)];
}

TickLoop::TickLoop(engine::Engine& engine, Clock& clock, const TickOptions& options, int wake_fd)
    : engine_(engine),
      clock_(clock),
      options_(options),
      wake_fd_(wake_fd),
      commands_(static_cast<size_t>(options.lanes) * 2 + 1) {
  const auto count = static_cast<size_t>(options.lanes);
  for (size_t i = 0; i < count; ++i) lanes_.push_back(std::make_unique<Lane>(options.playout));
  retired_.resize(count);
  active_.reserve(count);
  frames_.reserve(count);
  frame_lanes_.reserve(count);
}

TickLoop::~TickLoop() { Stop(); }

void TickLoop::Start() {
  assert(!thread_.joinable());
  stop_.store(false);
  thread_ = std::thread([this] { Run(); });
}

void TickLoop::Stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void TickLoop::Run() {
  pthread_setname_np(pthread_self(), "tick");
  const RealtimeScope realtime(options_.realtime_priority);
  if (realtime.error() != 0) {
    spdlog::warn("tick thread runs without real-time priority {}: {}", options_.realtime_priority,
                 std::strerror(realtime.error()));
  } else if (options_.realtime_priority > 0) {
    BindToFirstCore();
  }
  while (!stop_.load(kRelaxed)) Turn();
}

void TickLoop::Join(size_t index, const engine::PreparedSession& session) noexcept {
  Lane& lane = *lanes_[index];
  assert(lane.phase.load() == LanePhase::kFree);
  lane.phase.store(LanePhase::kJoining, std::memory_order_release);
  [[maybe_unused]] const bool pushed =
      commands_.push({Command::Kind::kJoin, static_cast<uint32_t>(index), &session});
  assert(pushed);
}

void TickLoop::Leave(size_t index) noexcept {
  [[maybe_unused]] const bool pushed =
      commands_.push({Command::Kind::kLeave, static_cast<uint32_t>(index), nullptr});
  assert(pushed);
}

void TickLoop::Recycle(size_t index) noexcept {
  Lane& lane = *lanes_[index];
  assert(lane.phase.load(std::memory_order_acquire) == LanePhase::kReleased);
  LaneTotals& retired = retired_[index];
  retired.frames += lane.counters.frames.exchange(0, kRelaxed);
  retired.late += lane.counters.late.exchange(0, kRelaxed);
  retired.degraded += lane.counters.degraded.exchange(0, kRelaxed);
  retired.starved += lane.counters.starved.exchange(0, kRelaxed);
  lane.in.Reset();
  lane.out.reset();
  lane.prefill_done_frames.store(0, kRelaxed);
  lane.staged = OutFrame{};
  lane.pcm_in.fill(0.0F);
  ++lane.tenancy;
  lane.phase.store(LanePhase::kFree, std::memory_order_release);
}

LaneTotals TickLoop::totals(size_t index) const {
  const LaneCounters& now = lanes_[index]->counters;
  LaneTotals totals = retired_[index];
  totals.frames += now.frames.load(kRelaxed);
  totals.late += now.late.load(kRelaxed);
  totals.degraded += now.degraded.load(kRelaxed);
  totals.starved += now.starved.load(kRelaxed);
  return totals;
}

TickStats TickLoop::stats() const {
  TickStats stats;
  stats.ticks = ticks_.load(kRelaxed);
  stats.missed = missed_.load(kRelaxed);
  for (size_t n = 0; n < lanes_.size(); ++n) {
    const LaneTotals lane = totals(n);
    stats.frames += lane.frames;
    stats.late += lane.late;
    stats.degraded += lane.degraded;
    stats.starved += lane.starved;
  }
  stats.p50_ms = durations_.PercentileMs(0.5);
  stats.p99_ms = durations_.PercentileMs(0.99);
  stats.p999_ms = durations_.PercentileMs(0.999);
  stats.max_ms = durations_.max_ms();
  return stats;
}

void TickLoop::Turn() noexcept {
  if (!started_) {
    next_ = clock_.Now();
    started_ = true;
  }
  clock_.SleepUntil(next_);
  Time now = clock_.Now();
  if (now > next_ + options_.period / 4) {
    Skip(now);
    clock_.SleepUntil(next_);
    now = clock_.Now();
  }
  last_turn_.store(now, kRelaxed);
  Took(TickPart::kStart, now - next_);
  next_ += options_.period;

  ApplyCommands();
  Gather(now);
  if (!frames_.empty()) {
    const Time gathered = clock_.Now();
    engine_.Tick(frames_);
    const Time ticked = clock_.Now();
    Scatter();
    const Time end = clock_.Now();
    Took(TickPart::kGather, gathered - now);
    Took(TickPart::kEngine, ticked - gathered);
    Took(TickPart::kScatter, end - ticked);
    Took(TickPart::kTotal, end - now);
    durations_.Add(end - now);
    changed_ = true;
  }
  ticks_.fetch_add(1, kRelaxed);
  const engine::KvUse use = engine_.kv_use();
  kv_pages_.store(use.pages, kRelaxed);
  kv_free_.store(use.free_pages, kRelaxed);
  if (changed_) Wake();
  if (prefilling_ == 0) return;
  const Time begin = clock_.Now();
  Prefill();
  Took(TickPart::kPrefill, clock_.Now() - begin);
}

// The grid goes on at its first point that is not over.
void TickLoop::Skip(Time now) noexcept {
  const auto skipped = static_cast<uint64_t>((now - next_ + options_.period) / options_.period);
  next_ += options_.period * static_cast<int64_t>(skipped);
  bool running = false;
  for (const uint32_t index : active_) {
    Lane& lane = *lanes_[index];
    if (lane.phase.load(kRelaxed) != LanePhase::kRunning) continue;
    lane.counters.late.fetch_add(skipped, kRelaxed);
    lane.next_number += skipped;
    running = true;
  }
  if (running) missed_.fetch_add(skipped, kRelaxed);
}

void TickLoop::ApplyCommands() noexcept {
  Command command;
  while (commands_.pop(command)) Apply(command);
}

void TickLoop::Apply(const Command& command) noexcept {
  Lane& lane = *lanes_[command.lane];
  changed_ = true;
  if (command.kind == Command::Kind::kLeave) {
    if (lane.joined) engine_.Leave(lane.slot);
    if (lane.phase.load(kRelaxed) == LanePhase::kPrefill) --prefilling_;
    lane.joined = false;
    std::erase(active_, command.lane);
    lane.phase.store(LanePhase::kReleased, std::memory_order_release);
    return;
  }
  lane.joined = engine_.Join(*command.session, &lane.slot);
  if (!lane.joined) {
    lane.phase.store(LanePhase::kRefused, std::memory_order_release);
    return;
  }
  lane.spoke = false;
  lane.next_number = 0;
  lane.prefill_total_frames = command.session->prefill_frames();
  active_.push_back(command.lane);
  const bool prefill = engine_.Phase(lane.slot) == engine::SlotPhase::kPrefill;
  if (prefill) ++prefilling_;
  lane.phase.store(prefill ? LanePhase::kPrefill : LanePhase::kRunning, std::memory_order_release);
}

void TickLoop::Gather(Time now) noexcept {
  frames_.clear();
  frame_lanes_.clear();
  for (const uint32_t index : active_) {
    Lane& lane = *lanes_[index];
    if (lane.phase.load(kRelaxed) != LanePhase::kRunning) continue;
    if (!lane.in.Pull(lane.pcm_in.data(), now)) lane.counters.starved.fetch_add(1, kRelaxed);
    engine::FrameIo frame;
    frame.slot = lane.slot;
    frame.pcm_in = lane.pcm_in.data();
    frame.pcm_out = lane.staged.pcm.data();
    frames_.push_back(frame);
    frame_lanes_.push_back(index);
  }
}

void TickLoop::Scatter() noexcept {
  for (size_t i = 0; i < frames_.size(); ++i) {
    Lane& lane = *lanes_[frame_lanes_[i]];
    OutFrame& out = lane.staged;
    if (!frames_[i].has_audio) {
      out.pcm.fill(0.0F);
      if (lane.spoke) lane.counters.degraded.fetch_add(1, kRelaxed);
    }
    lane.spoke = lane.spoke || frames_[i].has_audio;
    out.number = lane.next_number++;
    out.tenancy = lane.tenancy;
    out.text_token = frames_[i].text_token;
    out.deadline = next_;
    if (!lane.out.push(out)) lane.counters.late.fetch_add(1, kRelaxed);
    lane.counters.frames.fetch_add(1, std::memory_order_release);
  }
}

// One chunk at a time while its usual cost still fits before the guard; where nobody is talking yet
// there is nobody to be careful for. The cost is the dearest chunk of late; it fades, so that one
// slow chunk does not end prefill for good.
void TickLoop::Prefill() noexcept {
  const bool careful = prefilling_ < active_.size();
  while (prefilling_ > 0) {
    const Time begin = clock_.Now();
    const Duration need = careful ? chunk_cost_ + options_.guard : Duration{0};
    if (begin + need >= next_) {
      chunk_cost_ -= chunk_cost_ / 16;
      return;
    }
    engine_.PrefillChunk();
    chunk_cost_ = std::max<Duration>(clock_.Now() - begin, chunk_cost_ - chunk_cost_ / 16);
    changed_ = true;
    CreditPrefill();
  }
}

// The engine does not tell whose frame a chunk was; it takes prompts in turn, and so do we. Only
// the progress shown depends on this.
void TickLoop::CreditPrefill() noexcept {
  for (size_t tried = 0; tried < active_.size(); ++tried) {
    Lane& lane = *lanes_[active_[credit_++ % active_.size()]];
    if (lane.phase.load(kRelaxed) != LanePhase::kPrefill) continue;
    if (lane.prefill_done_frames.load(kRelaxed) < lane.prefill_total_frames) {
      lane.prefill_done_frames.fetch_add(1, kRelaxed);
    }
    break;
  }
  for (const uint32_t index : active_) {
    Lane& lane = *lanes_[index];
    if (lane.phase.load(kRelaxed) != LanePhase::kPrefill) continue;
    if (engine_.Phase(lane.slot) != engine::SlotPhase::kReady) continue;
    lane.prefill_done_frames.store(lane.prefill_total_frames, kRelaxed);
    --prefilling_;
    lane.phase.store(LanePhase::kRunning, std::memory_order_release);
  }
}

// Also after prompts moved, at the end of the turn before: that waits for this turn's wake.
void TickLoop::Wake() noexcept {
  changed_ = false;
  if (wake_fd_ < 0) return;
  const uint64_t one = 1;
  // Fails only where the counter is full, and then the reader is awake anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

}  // namespace antiphon::daemon
