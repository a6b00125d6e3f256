// An engine without a model: each frame comes back as it went in, or as the slot's generation, at
// costs that the test sets.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/lane.h"
#include "engine/engine.h"
#include "engine/error.h"
#include "tests/daemon/simulated_clock.h"

namespace antiphon::daemon {

class FakeEngine final : public engine::Engine {
 public:
  struct Prepared final : engine::PreparedSession {
    int frames = 0;
    int prefill_frames() const override { return frames; }
  };

  explicit FakeEngine(int slots, SimulatedClock* clock = nullptr)
      : clock_(clock), slots_(static_cast<size_t>(slots)) {
    info_.model_name = "fake";
    info_.family = "moshi";
    info_.slots = slots;
    info_.has_text = true;
    info_.takes_text_prompt = true;
    info_.voices = {"alto", "bass"};
  }

  // Set before use.
  Duration tick_cost{0};
  Duration chunk_cost{0};
  int prompt_frames = 0;             // of sessions with a text prompt
  int mute_ticks = 0;                // first frames of a session without sound
  int text_every = 0;                // a token (its number) every so many frames of a session
  std::function<void()> in_prepare;  // runs inside Prepare, on its thread
  std::atomic<bool> hang{false};     // Tick does not return while this is set
  // What a tick costs for each session in it, on top of tick_cost; waited for where there is no
  // simulated clock.
  std::atomic<int> session_cost_us{0};

  // Seen.
  std::vector<Time> tick_starts;  // only where a clock was given and room reserved
  std::atomic<int> ticks{0}, chunks{0}, joins{0}, leaves{0};
  size_t last_batch = 0;

  const engine::EngineInfo& info() const override { return info_; }
  engine::EngineInfo& mutable_info() { return info_; }

  std::unique_ptr<engine::PreparedSession> Prepare(
      const engine::SessionOptions& options) const override {
    if (in_prepare) in_prepare();
    if (!options.voice.empty() &&
        std::find(info_.voices.begin(), info_.voices.end(), options.voice) == info_.voices.end()) {
      throw InputError("voice: \"" + options.voice + "\" is not one of this model's voices");
    }
    auto prepared = std::make_unique<Prepared>();
    if (!options.text_prompt.empty()) prepared->frames = prompt_frames;
    return prepared;
  }

  std::string_view TextPiece(int32_t token) const override {
    return token > 3 ? std::string_view(" word") : std::string_view();
  }

  bool Join(const engine::PreparedSession& session, engine::SlotId* slot) noexcept override {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].phase != engine::SlotPhase::kFree) continue;
      Slot& s = slots_[i];
      ++s.generation;
      s.left = session.prefill_frames();
      s.frames = 0;
      s.phase = s.left > 0 ? engine::SlotPhase::kPrefill : engine::SlotPhase::kReady;
      *slot = {i, s.generation};
      ++joins;
      return true;
    }
    return false;
  }

  void Leave(engine::SlotId id) noexcept override {
    if (Phase(id) == engine::SlotPhase::kFree) return;
    slots_[id.index].phase = engine::SlotPhase::kFree;
    ++leaves;
  }

  engine::SlotPhase Phase(engine::SlotId id) const noexcept override {
    if (id.index >= slots_.size() || slots_[id.index].generation != id.generation) {
      return engine::SlotPhase::kFree;
    }
    return slots_[id.index].phase;
  }

  bool PrefillChunk() noexcept override {
    bool more = false, done = false;
    for (Slot& slot : slots_) {
      if (slot.phase != engine::SlotPhase::kPrefill) continue;
      if (!done) {
        done = true;
        ++chunks;
        if (clock_ != nullptr) clock_->Advance(chunk_cost);
        if (--slot.left == 0) slot.phase = engine::SlotPhase::kReady;
      }
      more = more || slot.phase == engine::SlotPhase::kPrefill;
    }
    return more;
  }

  void Tick(std::span<engine::FrameIo> frames) noexcept override {
    last_batch = frames.size();
    if (clock_ != nullptr && tick_starts.size() < tick_starts.capacity()) {
      tick_starts.push_back(clock_->Now());
    }
    for (engine::FrameIo& frame : frames) {
      Slot& slot = slots_[frame.slot.index];
      frame.has_audio = slot.frames >= mute_ticks;
      if (frame.has_audio) std::copy_n(frame.pcm_in, kFrameSamples, frame.pcm_out);
      frame.text_token = text_every > 0 && slot.frames % text_every == 0
                             ? 4 + static_cast<int32_t>(slot.frames)
                             : engine::FrameIo::kNoText;
      ++slot.frames;
    }
    ++ticks;
    const auto sessions_cost =
        std::chrono::microseconds(session_cost_us.load()) * static_cast<int64_t>(frames.size());
    if (clock_ != nullptr) {
      clock_->Advance(tick_cost + sessions_cost);
    } else if (sessions_cost.count() > 0) {
      std::this_thread::sleep_for(sessions_cost);
    }
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  struct Slot {
    uint32_t generation = 0;
    engine::SlotPhase phase = engine::SlotPhase::kFree;
    int left = 0;
    int frames = 0;
  };

  SimulatedClock* clock_;
  engine::EngineInfo info_;
  std::vector<Slot> slots_;
};

}  // namespace antiphon::daemon
