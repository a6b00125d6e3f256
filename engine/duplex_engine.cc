#include "engine/duplex_engine.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/error.h"

namespace antiphon::engine {

using kernels::kNotGiven;
using kernels::Row;
using kernels::Stage;

namespace {

class DuplexSession final : public PreparedSession {
 public:
  DuplexSession(SessionOptions options, Prompt prompt)
      : options_(std::move(options)), prompt_(std::move(prompt)) {}
  int prefill_frames() const override { return static_cast<int>(prompt_.calls.size()); }
  const SessionOptions& options() const { return options_; }
  const Prompt& prompt() const { return prompt_; }

 private:
  SessionOptions options_;
  Prompt prompt_;
};

// A place for a session.
struct Slot {
  uint32_t generation = 0;
  SlotPhase phase = SlotPhase::kFree;
  const DuplexSession* session = nullptr;
  int64_t calls = 0;          // frames given to the LM since reset, prompt included
  int64_t encode_frames = 0;  // since the encoder's reset
  int64_t decode_frames = 0;
};

void CheckSampling(const SamplingParams& params, const std::string& what) {
  if (!(params.temperature >= 0.0F && params.temperature <= 2.0F)) {
    throw InputError(what + "_temperature: expected 0 to 2, found " +
                     std::to_string(params.temperature));
  }
  if (params.top_k < 0) {
    throw InputError(what + "_top_k: expected 0 (all) or more, found " +
                     std::to_string(params.top_k));
  }
}

class DuplexEngine final : public Engine {
 public:
  DuplexEngine(std::unique_ptr<Model> model, DuplexOptions options)
      : model_(std::move(model)),
        options_(std::move(options)),
        echo_(model_->options().echo),
        slots_(static_cast<size_t>(model_->options().slots)),
        step_frame_(slots_.size()),
        decode_frame_(slots_.size()) {
    if (!echo_) lm_ = model_->checkpoint().lm_config();
    personaplex_ = lm_ != nullptr && model_->options().force_given;
    FillInfo();
    FillPieces();
    WarmUp();
  }

  const EngineInfo& info() const override { return info_; }

  std::unique_ptr<PreparedSession> Prepare(const SessionOptions& options) const override {
    CheckSampling(options.text, "text");
    CheckSampling(options.audio, "audio");
    if (!options.voice.empty() &&
        std::find(info_.voices.begin(), info_.voices.end(), options.voice) == info_.voices.end()) {
      throw InputError("voice: \"" + options.voice + "\" is not one of this model's voices");
    }
    if (!options.text_prompt.empty() && !info_.takes_text_prompt) {
      throw InputError("text_prompt: the model " + info_.model_name + " takes no text prompt");
    }
    Prompt prompt;
    if (personaplex_ && (!options.voice.empty() || !options.text_prompt.empty())) {
      Voice voice;
      if (!options.voice.empty()) voice = ReadVoice(VoicePath(options.voice), *lm_);
      const Tokenizer* tokenizer = model_->checkpoint().tokenizer();
      std::vector<int32_t> tokens;
      if (tokenizer != nullptr) tokens = tokenizer->Encode(WrapSystemTags(options.text_prompt));
      prompt = MakePrompt(*lm_, options_.prompt_frames, std::move(voice), tokens);
    }
    return std::make_unique<DuplexSession>(options, std::move(prompt));
  }

  std::string_view TextPiece(int32_t token) const override {
    const bool known = token >= 0 && static_cast<size_t>(token) < pieces_.size();
    return known ? std::string_view(pieces_[static_cast<size_t>(token)]) : std::string_view();
  }

  bool Join(const PreparedSession& session, SlotId* id) noexcept override {
    const auto free = std::find_if(slots_.begin(), slots_.end(),
                                   [](const Slot& s) { return s.phase == SlotPhase::kFree; });
    if (free == slots_.end()) return false;
    if (!model_->ReserveKv(static_cast<int>(free - slots_.begin()))) return false;
    const uint32_t generation = free->generation + 1;
    *free = Slot{};
    free->generation = generation;
    free->session = static_cast<const DuplexSession*>(&session);
    free->phase = free->session->prefill_frames() > 0 ? SlotPhase::kPrefill : SlotPhase::kReady;
    *id = {static_cast<uint32_t>(free - slots_.begin()), generation};
    return true;
  }

  KvUse kv_use() const noexcept override {
    const KvPages* const pages = model_->kv_pages();
    if (pages == nullptr) return {};
    return {pages->pool_pages(), pages->free_pages()};
  }

  void Leave(SlotId id) noexcept override {
    if (Slot* slot = Find(id)) {
      slot->phase = SlotPhase::kFree;
      slot->session = nullptr;
      model_->ReleaseKv(static_cast<int>(id.index));
    }
  }

  SlotPhase Phase(SlotId id) const noexcept override {
    const Slot* slot = const_cast<DuplexEngine*>(this)->Find(id);
    return slot == nullptr ? SlotPhase::kFree : slot->phase;
  }

  bool PrefillChunk() noexcept override {
    // Round robin, so that a long prompt does not hold up a short one.
    for (size_t i = 0; i < slots_.size(); ++i) {
      next_prefill_ = (next_prefill_ + 1) % slots_.size();
      if (slots_[next_prefill_].phase != SlotPhase::kPrefill) continue;
      Prefill(static_cast<int32_t>(next_prefill_));
      break;
    }
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const Slot& s) { return s.phase == SlotPhase::kPrefill; });
  }

  void Tick(std::span<FrameIo> frames) noexcept override {
    ClearRows();
    for (size_t i = 0; i < frames.size(); ++i) {
      FrameIo& frame = frames[i];
      frame.has_audio = false;
      frame.text_token = FrameIo::kNoText;
      Slot* slot = Find(frame.slot);
      if (slot != nullptr && slot->phase == SlotPhase::kReady) AddRows(frame, i, *slot);
    }
    model_->Run();
    for (int32_t r = 0; r < model_->rows(Stage::kStep).count; ++r) {
      frames[step_frame_[static_cast<size_t>(r)]].text_token = Shown(model_->out_tokens(r)[0]);
    }
    for (int32_t r = 0; r < model_->rows(Stage::kDecode).count; ++r) {
      FrameIo& frame = frames[decode_frame_[static_cast<size_t>(r)]];
      std::memcpy(frame.pcm_out, model_->pcm_out(r), FrameBytes());
      frame.has_audio = true;
      ++slots_[frame.slot.index].decode_frames;
    }
    for (int32_t r = 0; r < model_->rows(Stage::kEncode).count; ++r) {
      Advance(slots_[static_cast<size_t>(model_->rows(Stage::kEncode).rows[r].slot)]);
    }
  }

 private:
  size_t FrameBytes() const { return static_cast<size_t>(model_->frame_samples()) * sizeof(float); }

  Slot* Find(SlotId id) noexcept {
    if (id.index >= slots_.size()) return nullptr;
    Slot& slot = slots_[id.index];
    return slot.generation == id.generation && slot.phase != SlotPhase::kFree ? &slot : nullptr;
  }

  void ClearRows() noexcept {
    for (const Stage stage : {Stage::kEncode, Stage::kStep, Stage::kDecode, Stage::kPrefill}) {
      model_->rows(stage).count = 0;
    }
  }

  static Row& AppendRow(kernels::Control::Rows& rows, uint32_t slot, int64_t position) noexcept {
    Row& row = rows.rows[rows.count++];
    row = Row{};
    row.slot = static_cast<int32_t>(slot);
    row.position = position;
    return row;
  }

  void AddRows(const FrameIo& frame, size_t index, const Slot& slot) noexcept {
    kernels::Control::Rows& encode = model_->rows(Stage::kEncode);
    std::memcpy(model_->pcm_in(encode.count), frame.pcm_in, FrameBytes());
    AppendRow(encode, frame.slot.index, slot.encode_frames);
    bool decodes = echo_;
    if (!echo_) {
      // PersonaPlex's first call only writes tokens that the initial ones then replace
      // (section 4.1).
      const int64_t evaluation = slot.calls - (personaplex_ ? 1 : 0);
      if (evaluation < 0) return;
      kernels::Control::Rows& step = model_->rows(Stage::kStep);
      step_frame_[static_cast<size_t>(step.count)] = index;
      std::fill_n(model_->given(step.count), lm_->streams(), kNotGiven);
      Row& row = AppendRow(step, frame.slot.index, evaluation);
      const SessionOptions& options = slot.session->options();
      row.user_from_encoder = true;
      row.seed = options.seed;
      row.text_temperature = options.text.temperature;
      row.text_top_k = options.text.top_k;
      row.audio_temperature = options.audio.temperature;
      row.audio_top_k = options.audio.top_k;
      decodes = evaluation + 1 > lm_->max_delay() && lm_->agent_codes() > 0;
    }
    if (!decodes) return;
    kernels::Control::Rows& decode = model_->rows(Stage::kDecode);
    decode_frame_[static_cast<size_t>(decode.count)] = index;
    AppendRow(decode, frame.slot.index, slot.decode_frames);
  }

  void Advance(Slot& slot) const noexcept {
    ++slot.encode_frames;
    // Moshi's server resets the codec after the first frame, which the model never sees
    // (section 3.6).
    if (lm_ != nullptr && !personaplex_ && slot.calls == 0) slot.encode_frames = 0;
    ++slot.calls;
  }

  // The next calls of a slot's prompt, at most one chunk of them.
  void Prefill(int32_t index) noexcept {
    Slot& slot = slots_[static_cast<size_t>(index)];
    const Prompt& prompt = slot.session->prompt();
    const auto total = static_cast<int64_t>(prompt.calls.size());
    ClearRows();
    kernels::Control::Rows& rows = model_->rows(Stage::kPrefill);
    while (slot.calls < total && rows.count < model_->options().prefill_rows) {
      // The ring that stored embeddings leave behind is restored before anything reads it.
      if (prompt.embedding_calls > 0 && slot.calls == prompt.embedding_calls) {
        if (rows.count > 0) break;
        RestoreRing(prompt.voice, model_->tokens(), model_->token_grid(index));
      }
      const PromptCall& call = prompt.calls[static_cast<size_t>(slot.calls)];
      if (slot.calls > 0) AddPrefillRow(rows, index, slot.calls - 1, call);
      ++slot.calls;
    }
    if (rows.count > 0) model_->RunPrefill();
    rows.count = 0;
    if (slot.calls == total) slot.phase = SlotPhase::kReady;
  }

  void AddPrefillRow(kernels::Control::Rows& rows, int32_t slot, int64_t evaluation,
                     const PromptCall& call) noexcept {
    int32_t* given = model_->given(rows.count);
    std::fill_n(given, lm_->streams(), kNotGiven);
    std::copy(call.given.begin(), call.given.end(), given);
    if (call.embedding != nullptr) {
      std::memcpy(model_->embedding(rows.count), call.embedding,
                  static_cast<size_t>(lm_->temporal.dim) * sizeof(float));
    }
    AppendRow(rows, static_cast<uint32_t>(slot), evaluation).use_embedding =
        call.embedding != nullptr;
  }

  int32_t Shown(int32_t token) const noexcept {
    return TextPiece(token).empty() ? FrameIo::kNoText : token;
  }

  std::filesystem::path VoicesFolder() const {
    return std::filesystem::path(model_->checkpoint().folder()) / "voices";
  }
  std::string VoicePath(const std::string& name) const {
    return (VoicesFolder() / (name + ".safetensors")).string();
  }

  void FillInfo() {
    info_.model_name = options_.model_name;
    info_.frame_samples = model_->frame_samples();
    info_.sample_rate_hz = model_->checkpoint().mimi_config()->sample_rate_hz;
    info_.slots = static_cast<int>(slots_.size());
    info_.family = echo_ ? "codec" : personaplex_ ? "personaplex" : "moshi";
    if (echo_) return;
    const bool has_tokenizer = model_->checkpoint().tokenizer() != nullptr;
    info_.has_text = has_tokenizer;
    const PromptFrames& frames = options_.prompt_frames;
    const auto fits = [&](const std::vector<int32_t>& codes) {
      return std::all_of(codes.begin(), codes.end(), [&](int32_t c) { return c < lm_->card; });
    };
    const bool prompts = personaplex_ && fits(frames.silence) && fits(frames.sine);
    info_.takes_text_prompt = prompts && has_tokenizer;
    info_.defaults.text = {lm_->temp_text, lm_->top_k_text};
    info_.defaults.audio = {lm_->temp_audio, lm_->top_k_audio};
    if (!prompts || !std::filesystem::is_directory(VoicesFolder())) return;
    for (const auto& entry : std::filesystem::directory_iterator(VoicesFolder())) {
      if (entry.path().extension() == ".safetensors") {
        info_.voices.push_back(entry.path().stem().string());
      }
    }
    std::sort(info_.voices.begin(), info_.voices.end());
  }

  // Text of every token; padding (its id and id 0, the end of padding) shows nothing.
  void FillPieces() {
    const Tokenizer* tokenizer = echo_ ? nullptr : model_->checkpoint().tokenizer();
    if (tokenizer == nullptr) return;
    pieces_.resize(static_cast<size_t>(tokenizer->size()));
    for (int32_t id = 1; id < tokenizer->size(); ++id) {
      if (id != lm_->text_padding_id) pieces_[static_cast<size_t>(id)] = tokenizer->Piece(id);
    }
  }

  // Runs a few ticks of silence on full rows: pages, caches and clocks are warm before the first
  // call.
  void WarmUp() {
    const DuplexSession session{info_.defaults, Prompt{}};
    std::vector<float> silence(static_cast<size_t>(info_.frame_samples));
    std::vector<float> out(silence.size());
    std::vector<FrameIo> frames(slots_.size());
    for (FrameIo& frame : frames) {
      Join(session, &frame.slot);
      frame.pcm_in = silence.data();
      frame.pcm_out = out.data();
    }
    for (int i = 0; i < 4; ++i) Tick(frames);
    for (const FrameIo& frame : frames) Leave(frame.slot);
  }

  // Owned by us.
  std::unique_ptr<Model> model_;
  DuplexOptions options_;
  EngineInfo info_;
  std::vector<std::string> pieces_;
  const LmConfig* lm_ = nullptr;  // null for echo
  bool echo_;
  bool personaplex_ = false;
  // State.
  std::vector<Slot> slots_;
  std::vector<size_t> step_frame_, decode_frame_;  // row -> index in the tick's frames
  size_t next_prefill_ = 0;
};

}  // namespace

std::unique_ptr<Engine> MakeDuplexEngine(std::unique_ptr<Model> model, DuplexOptions options) {
  return std::make_unique<DuplexEngine>(std::move(model), std::move(options));
}

}  // namespace antiphon::engine
