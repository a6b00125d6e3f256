#include "cli/talk_local.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "audio/wav_file.h"
#include "cli/transcript.h"
#include "engine/engine.h"

namespace antiphon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTailSeconds = 5.0;  // of silence after the recording, for the answer

// Milliseconds that ticks took; the p-th part of all.
double Percentile(std::vector<double> sorted, double part) {
  if (sorted.empty()) return 0.0;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
}

// The conversation, once the session is in its slot.
class Conversation {
 public:
  Conversation(engine::Engine& engine, engine::SlotId slot, const TalkLocalOptions& options)
      : engine_(engine),
        options_(options),
        frame_samples_(static_cast<size_t>(engine.info().frame_samples)),
        period_(std::chrono::nanoseconds(std::chrono::seconds(1)) * engine.info().frame_samples /
                engine.info().sample_rate_hz) {
    io_.slot = slot;
  }

  void Run(const std::vector<float>& said, size_t frames) {
    heard_.resize(frames * frame_samples_);
    std::vector<float> frame(frame_samples_);
    io_.pcm_in = frame.data();
    const Clock::time_point begin = Clock::now();
    for (size_t f = 0; f < frames; ++f) {
      // In real time a frame is there once its sound has been said.
      const Clock::time_point due = begin + period_ * static_cast<int64_t>(f + 1);
      if (options_.real_time) std::this_thread::sleep_until(due);
      const size_t at = std::min(said.size(), f * frame_samples_);
      const size_t count = std::min(frame_samples_, said.size() - at);
      std::fill(frame.begin(), frame.end(), 0.0F);
      std::copy_n(said.begin() + static_cast<std::ptrdiff_t>(at), count, frame.begin());
      Tick(f, due);
    }
    transcript_.Finish();
  }

  const std::vector<float>& heard() const { return heard_; }

  void PrintSummary() const {
    std::printf("frames %zu, late %zu, tick p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", ticks_.size(),
                late_, Percentile(ticks_, 0.5), Percentile(ticks_, 0.99), Percentile(ticks_, 1.0));
  }

 private:
  void Tick(size_t f, Clock::time_point due) {
    io_.pcm_out = heard_.data() + f * frame_samples_;
    const Clock::time_point start = Clock::now();
    engine_.Tick({&io_, 1});
    const Clock::time_point end = Clock::now();
    ticks_.push_back(std::chrono::duration<double, std::milli>(end - start).count());
    if (options_.real_time ? end > due + period_ : end - start > period_) ++late_;
    if (options_.text && io_.text_token != engine::FrameIo::kNoText) {
      const auto time =
          std::chrono::duration_cast<std::chrono::milliseconds>(period_ * static_cast<int64_t>(f));
      transcript_.Add(static_cast<uint64_t>(time.count()), engine_.TextPiece(io_.text_token));
    }
  }

  engine::Engine& engine_;
  const TalkLocalOptions& options_;
  const size_t frame_samples_;
  const std::chrono::nanoseconds period_;
  engine::FrameIo io_;
  std::vector<float> heard_;
  std::vector<double> ticks_;
  size_t late_ = 0;
  Transcript transcript_;
};

}  // namespace

int TalkLocally(const TalkLocalOptions& options) {
  engine::EngineOptions engine_options;
  engine_options.model = options.model;
  engine_options.executor = options.executor;
  engine_options.weights = options.weights;
  engine_options.kv = options.kv;
  engine_options.threads = options.threads;
  engine_options.slots = 1;
  const audio::Sound sound = audio::ReadWav(options.in_wav);
  const std::unique_ptr<engine::Engine> engine = engine::MakeEngine(engine_options);
  const engine::EngineInfo& info = engine->info();
  const std::vector<float> said = audio::ToMono(sound, info.sample_rate_hz);

  engine::SessionOptions session = info.defaults;
  session.voice = options.voice;
  session.text_prompt = options.text_prompt;
  session.seed = options.seed;
  if (options.temperature) {
    session.text.temperature = static_cast<float>(*options.temperature);
    session.audio.temperature = static_cast<float>(*options.temperature);
  }
  const std::unique_ptr<engine::PreparedSession> prepared = engine->Prepare(session);
  engine::SlotId slot;
  engine->Join(*prepared, &slot);
  while (engine->PrefillChunk()) {
  }
  const double seconds =
      options.duration_s > 0.0
          ? options.duration_s
          : static_cast<double>(said.size()) / info.sample_rate_hz + kTailSeconds;
  Conversation conversation(*engine, slot, options);
  conversation.Run(said, static_cast<size_t>(seconds * info.sample_rate_hz /
                                             static_cast<double>(info.frame_samples)));
  engine->Leave(slot);
  if (!options.out_wav.empty()) {
    audio::WavWriter writer(options.out_wav, info.sample_rate_hz, 1);
    writer.Write(conversation.heard());
    writer.Close();
  }
  conversation.PrintSummary();
  return 0;
}

}  // namespace antiphon::cli
