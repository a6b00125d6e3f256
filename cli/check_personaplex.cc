// Golden runs of PersonaPlex stepping: with and without system prompts, the voice given as frames
// and as stored embeddings, prompts run as full steps and as prefill, and with unread depth steps
// left out.
#include <algorithm>

#include "cli/check.h"
#include "cli/lm_trace.h"
#include "engine/prompt.h"

namespace antiphon::cli {

using engine::AttentionWindow;
using engine::LmConfig;
using engine::Model;
using engine::ModelOptions;
using kernels::Row;
using kernels::Stage;

namespace {

class PersonaPlexCheck {
 public:
  PersonaPlexCheck(const Checkpoints& checkpoint, const GoldenFile& io, std::string voice_file,
                   CheckReport& report)
      : checkpoint_(checkpoint),
        lm_(Config(*checkpoint->lm_config(), io)),
        io_(io),
        voice_file_(std::move(voice_file)),
        report_(report),
        user_(io.IntsOf("user_codes")),
        calls_(io.IntsOf("phase").size()) {
    users_ = static_cast<size_t>(lm_.user_codes());
    conversation_ = user_.size() / users_;
    if (io.Has("voice_codes")) MakePrompt();
  }

  void Run() {
    RunAllCalls();
    RunPrefilled("without unread depth steps", prompt_.calls);
    if (prompt_.calls.empty() || voice_file_.empty()) return;
    engine::PromptFrames frames = Frames();
    const engine::Prompt stored = engine::MakePrompt(
        lm_, frames, engine::ReadVoice(voice_file_, lm_), io_.IntsOf("text_prompt_tokens"));
    RunPrefilled("stored voice embeddings", stored.calls, &stored);
  }

 private:
  // The golden run states its own padding token.
  static LmConfig Config(LmConfig lm, const GoldenFile& io) {
    if (io.Has("text_pad")) lm.text_padding_id = io.IntsOf("text_pad")[0];
    return lm;
  }

  engine::PromptFrames Frames() const {
    engine::PromptFrames frames;
    frames.silence = io_.IntsOf("silence_codes");
    frames.sine = io_.IntsOf("sine_codes");
    frames.silence_frames = io_.IntsOf("silence_frames")[0];
    return frames;
  }

  void MakePrompt() {
    engine::Voice voice;
    const std::vector<int32_t> by_level = io_.IntsOf("voice_codes");
    const auto agent = static_cast<size_t>(lm_.agent_codes());
    voice.frames = static_cast<int>(by_level.size() / agent);
    for (size_t f = 0; f < by_level.size() / agent; ++f) {
      for (size_t q = 0; q < agent; ++q) {
        voice.codes.push_back(by_level[q * (by_level.size() / agent) + f]);
      }
    }
    prompt_ = engine::MakePrompt(lm_, Frames(), std::move(voice), io_.IntsOf("text_prompt_tokens"));
  }

  std::unique_ptr<Model> MakeLm(bool all_depth_steps, int prefill_rows) const {
    ModelOptions options;
    options.with_codec = false;
    options.prefill_rows = prefill_rows;
    options.all_depth_steps = all_depth_steps;
    options.force_given = true;
    options.window = io_.name.find("fullctx") != std::string::npos ? AttentionWindow::kStreaming
                                                                   : AttentionWindow::kDropOldest;
    return MakeCheckedModel(checkpoint_, options, report_.options());
  }

  void GiveUser(Model& model, size_t frame) const {
    for (size_t u = 0; u < users_; ++u) {
      model.given(0)[1 + static_cast<size_t>(lm_.agent_codes()) + u] =
          user_[u * conversation_ + frame];
    }
  }

  // Every call as a full step, so that all logits can be compared.
  void RunAllCalls() {
    const std::unique_ptr<Model> model = MakeLm(true, 0);
    LmTrace trace(*model, lm_);
    std::vector<int32_t> out(static_cast<size_t>(lm_.streams()), kernels::kNoToken);
    for (size_t call = 1; call < calls_; ++call) {
      trace.Row0(static_cast<int64_t>(call) - 1);
      if (call < prompt_.calls.size()) {
        const std::vector<int32_t>& given = prompt_.calls[call].given;
        std::copy(given.begin(), given.end(), model->given(0));
      } else {
        GiveUser(*model, call - prompt_.calls.size());
      }
      model->Run();
      trace.Record(0, lm_.streams());
    }
    trace.Compare(io_, report_, /*with_out_tokens=*/false);
    // The first call evaluates nothing: its row is all "nothing".
    out.insert(out.end(), trace.out_tokens().begin(), trace.out_tokens().end());
    report_.Tokens(io_.name + ".out_tokens", io_.IntsOf("out_tokens"), out);
  }

  // Prompt through the prefill plan, then the conversation without the depth steps nothing reads.
  void RunPrefilled(const std::string& what, const std::vector<engine::PromptCall>& prompt,
                    const engine::Prompt* stored = nullptr) {
    const std::unique_ptr<Model> model = MakeLm(false, kPrefillRows);
    for (size_t call = 1; call < prompt.size();) call = Prefill(*model, prompt, call, stored);
    LmTrace trace(*model, lm_);
    std::vector<int32_t> expected = io_.IntsOf("out_tokens"), out;
    const auto streams = static_cast<size_t>(lm_.streams());
    const size_t first = std::max<size_t>(1, prompt.size());
    for (size_t call = first; call < calls_; ++call) {
      trace.Row0(static_cast<int64_t>(call) - 1);
      GiveUser(*model, call - prompt.size());
      model->Run();
      out.insert(out.end(), model->out_tokens(0), model->out_tokens(0) + streams);
    }
    expected.erase(expected.begin(),
                   expected.begin() + static_cast<std::ptrdiff_t>(first * streams));
    report_.Tokens(io_.name + ".out_tokens, " + what, expected, out);
  }

  size_t Prefill(Model& model, const std::vector<engine::PromptCall>& prompt, size_t call,
                 const engine::Prompt* stored) const {
    kernels::Control::Rows& rows = model.rows(Stage::kPrefill);
    rows.count = 0;
    const auto embeddings = static_cast<size_t>(stored != nullptr ? stored->embedding_calls : 0);
    if (stored != nullptr && call == embeddings) {
      engine::RestoreRing(stored->voice, model.tokens(), model.token_grid(0));
    }
    for (; call < prompt.size() && rows.count < kPrefillRows; ++call) {
      if (call == embeddings && rows.count > 0 && stored != nullptr) break;
      Row row;
      row.position = static_cast<int64_t>(call) - 1;
      row.use_embedding = prompt[call].embedding != nullptr;
      int32_t* given = model.given(rows.count);
      std::fill_n(given, lm_.streams(), kernels::kNotGiven);
      std::copy(prompt[call].given.begin(), prompt[call].given.end(), given);
      if (row.use_embedding) {
        std::copy_n(prompt[call].embedding, lm_.temporal.dim, model.embedding(rows.count));
      }
      rows.rows[rows.count++] = row;
    }
    model.RunPrefill();
    return call;
  }

  static constexpr int kPrefillRows = 4;
  const Checkpoints& checkpoint_;
  const LmConfig lm_;
  const GoldenFile& io_;
  std::string voice_file_;
  CheckReport& report_;
  std::vector<int32_t> user_;  // [user codes, conversation frames]
  size_t calls_, users_ = 0, conversation_ = 0;
  engine::Prompt prompt_;
};

}  // namespace

void CheckPersonaPlex(const Checkpoints& checkpoint, const GoldenFile& io,
                      const std::string& voice_file, CheckReport& report) {
  PersonaPlexCheck(checkpoint, io, voice_file, report).Run();
}

}  // namespace antiphon::cli
