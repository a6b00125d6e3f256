// The engine's contract: sessions join and leave, and once per tick every session that is due gives
// one frame of the caller's sound and gets one frame of speech.
//
// Threads: Prepare, TextPiece and info may be called from any thread at any time. Everything else
// belongs to one thread, the tick thread; there nothing allocates, locks, logs or throws.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::engine {

// How one kind of token is drawn from its logits. Temperature 0 is greedy; top_k 0 keeps all.
struct SamplingParams {
  float temperature = 0.0F;
  int top_k = 0;
};

// What a caller asks for. Defaults come from EngineInfo::defaults (the model's lm_gen_config).
struct SessionOptions {
  std::string voice;        // name of a voice in EngineInfo::voices; empty: the model's default
  std::string text_prompt;  // persona; only where EngineInfo::takes_text_prompt
  SamplingParams text;
  SamplingParams audio;
  uint64_t seed = 0;
};

// What the model is and offers.
struct EngineInfo {
  std::string model_name;  // e.g. "embedded", "echo", "moshi-7b"
  std::string family;      // "moshi", "personaplex", "codec"
  int sample_rate_hz = 24000;
  int frame_samples = 1920;  // one frame = one tick
  int slots = 0;             // sessions that can be resident at once
  bool has_text = false;     // frames may carry text tokens
  bool takes_text_prompt = false;
  std::vector<std::string> voices;
  SessionOptions defaults;
};

// A place in the engine. The generation tells a slot's tenants apart: calls with an old generation
// are refused, so a new caller never gets a byte of the one before.
struct SlotId {
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const SlotId&) const = default;
};

// A session's options, checked and turned into tokens and frames to prefill (the only part of
// joining that may take time or memory). Made by Engine::Prepare, consumed by Engine::Join.
class PreparedSession {
 public:
  virtual ~PreparedSession() = default;
  // Frames of prompt that must run before the conversation can begin; 0 where there is no prompt.
  virtual int prefill_frames() const = 0;
};

enum class SlotPhase : uint8_t {
  kFree,     // no such tenant (never joined, left, or an old generation)
  kPrefill,  // the prompt is not through the model yet; Tick ignores the slot
  kReady,    // takes and gives frames
};

// One session's part of a tick.
struct FrameIo {
  static constexpr int32_t kNoText = -1;

  SlotId slot;                    // in
  const float* pcm_in = nullptr;  // in: [frame_samples], -1..1, 24 kHz mono
  float* pcm_out = nullptr;       // out: [frame_samples]; written if has_audio, untouched otherwise
  bool has_audio = false;         // out: false while the model has no output yet (the first frames)
  int32_t text_token = kNoText;   // out: token whose TextPiece is to be shown, or kNoText
};

// Pages of the pool of keys and values; zeros where the model keeps none there.
struct KvUse {
  int pages = 0, free_pages = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;

  // Checks the options and does all work of joining that is not real-time (tokenizing, reading a
  // voice). Throws InputError naming the field: unknown voice, prompt on a model without prompts,
  // sampling parameters out of range.
  virtual std::unique_ptr<PreparedSession> Prepare(const SessionOptions& options) const = 0;

  // UTF-8 text of a token with its leading space, "" for tokens that show nothing. The view lives
  // as long as the engine.
  virtual std::string_view TextPiece(int32_t token) const = 0;

  // Takes a free slot for the prepared session, which must outlive it (until Leave). False if there
  // is no free slot. The slot starts from reset state.
  virtual bool Join(const PreparedSession& session, SlotId* slot) noexcept = 0;

  // Frees the slot; an old generation does nothing.
  virtual void Leave(SlotId slot) noexcept = 0;

  virtual SlotPhase Phase(SlotId slot) const noexcept = 0;

  // Runs one chunk of prompt prefill for sessions that still need it. True if more remains. Called
  // in the slack between ticks; one chunk is short against a tick.
  virtual bool PrefillChunk() noexcept = 0;

  // Runs one frame for each of the given sessions in lockstep; slots not named keep their state.
  // REQUIRES: no slot twice, frames.size() <= info().slots. Entries whose slot is not kReady are
  // skipped (has_audio = false).
  virtual void Tick(std::span<FrameIo> frames) noexcept = 0;

  // By the thread that calls Join and Leave.
  virtual KvUse kv_use() const noexcept { return {}; }
};

// How an engine is built. Thrown errors are InputError.
struct EngineOptions {
  std::string model =
      "embedded";  // "embedded", "echo", or a checkpoint folder (of a codec alone: an echo)
  std::string executor = "cpu";  // "cpu" or "reference"
  std::string weights = "auto";  // "auto" (as in the checkpoint), "fp32", "bf16", "int8", "int4"
  std::string kv = "auto";       // keys and values: "auto" (fp32), "fp32", "bf16", "int8", "int4"
  int slots = 4;                 // sessions resident at once, 1..1024
  int threads = 0;               // workers; 0: one per physical core
};

// Loads the model, plans every tick, packs the weights and runs a warm-up. Throws InputError.
std::unique_ptr<Engine> MakeEngine(const EngineOptions& options);

}  // namespace antiphon::engine
