#include "cli/teacher_forcing.h"

#include <algorithm>

#include "engine/error.h"
#include "engine/make_executor.h"

namespace antiphon::cli {

using engine::LmConfig;
using engine::Model;
using engine::ModelOptions;
using kernels::Stage;

namespace {

// Sets the stage's only row, slot 0, at `position`.
void SetRow(Model& model, Stage stage, int64_t position) {
  kernels::Control::Rows& rows = model.rows(stage);
  rows.rows[0] = kernels::Row{};
  rows.rows[0].position = position;
  rows.count = 1;
}

// The caller's codes of every frame, [frames][levels].
std::vector<std::vector<int32_t>> Encode(const CheckpointPtr& checkpoint,
                                         const std::vector<float>& sound, int levels) {
  ModelOptions options;
  options.with_lm = false;
  options.codebooks = levels;
  Model model(checkpoint, options, engine::MakeExecutor("cpu", "fp32", 0));
  const auto samples = static_cast<size_t>(model.frame_samples());
  std::vector<std::vector<int32_t>> codes;
  for (size_t begin = 0; begin + samples <= sound.size(); begin += samples) {
    std::copy_n(sound.begin() + static_cast<std::ptrdiff_t>(begin), samples, model.pcm_in(0));
    SetRow(model, Stage::kEncode, static_cast<int64_t>(codes.size()));
    model.Run();
    codes.emplace_back(model.user_codes(0), model.user_codes(0) + levels);
  }
  return codes;
}

}  // namespace

namespace {

// What the fp32 model says, greedily, to a caller's codes [frames][levels].
Conversation Answer(const CheckpointPtr& checkpoint,
                    const std::vector<std::vector<int32_t>>& user) {
  const LmConfig& lm = *checkpoint->lm_config();
  ModelOptions options;
  options.with_codec = false;
  options.prefill_rows = 0;
  options.all_depth_steps = true;
  Model model(checkpoint, options, engine::MakeExecutor("cpu", "fp32", 0));
  const auto streams = static_cast<size_t>(lm.streams());
  const size_t known = 1 + static_cast<size_t>(lm.agent_codes());
  std::vector<std::vector<int32_t>> by_frame;
  for (size_t t = 0; t < user.size(); ++t) {
    SetRow(model, Stage::kStep, static_cast<int64_t>(t));
    std::fill_n(model.given(0), streams, kernels::kNotGiven);
    std::copy(user[t].begin(), user[t].end(), model.given(0) + known);
    model.Run();
    // Aligned vectors come max_delay evaluations late.
    if (static_cast<int>(t) < lm.max_delay()) continue;
    std::vector<int32_t> frame(model.out_tokens(0), model.out_tokens(0) + known);
    const std::vector<int32_t>& heard = user[t - static_cast<size_t>(lm.max_delay())];
    frame.insert(frame.end(), heard.begin(), heard.end());
    if (std::all_of(frame.begin(), frame.end(), [](int32_t token) { return token >= 0; })) {
      by_frame.push_back(std::move(frame));
    }
  }
  Conversation conversation;
  conversation.frames = by_frame.size();
  conversation.codes.resize(streams * by_frame.size());
  for (size_t t = 0; t < by_frame.size(); ++t) {
    for (size_t s = 0; s < streams; ++s) {
      conversation.codes[s * by_frame.size() + t] = by_frame[t][s];
    }
  }
  return conversation;
}

}  // namespace

Conversation Converse(const CheckpointPtr& checkpoint, const std::vector<float>& sound) {
  return Answer(checkpoint, Encode(checkpoint, sound, checkpoint->lm_config()->user_codes()));
}

Conversation ReadConversation(const CheckpointPtr& checkpoint, const std::string& file) {
  const engine::SafeTensors tensors = engine::SafeTensors::Open(file);
  Conversation conversation;
  if (tensors.Has("codes") && tensors.Get("codes").shape.size() == 3) {
    const engine::TensorView& view = tensors.Get("codes");
    conversation.frames = static_cast<size_t>(view.shape[2]);
    conversation.codes.resize(static_cast<size_t>(view.shape[1] * view.shape[2]));
    engine::ReadInts(view, 0, view.shape[1] * view.shape[2], conversation.codes.data());
  } else if (tensors.Has("user_codes") && tensors.Get("user_codes").shape.size() == 2) {
    const engine::TensorView& view = tensors.Get("user_codes");
    const auto levels = static_cast<size_t>(view.shape[0]);
    const auto frames = static_cast<size_t>(view.shape[1]);
    if (static_cast<int>(levels) != checkpoint->lm_config()->user_codes()) return conversation;
    std::vector<int32_t> codes(levels * frames);
    engine::ReadInts(view, 0, view.elements(), codes.data());
    std::vector<std::vector<int32_t>> user(frames, std::vector<int32_t>(levels));
    for (size_t q = 0; q < levels; ++q) {
      for (size_t t = 0; t < frames; ++t) user[t][q] = codes[q * frames + t];
    }
    conversation = Answer(checkpoint, user);
  }
  return conversation;
}

TeacherForcing::TeacherForcing(const CheckpointPtr& checkpoint, const Formats& formats)
    : checkpoint_(checkpoint) {
  ModelOptions options;
  options.with_codec = false;
  options.prefill_rows = 0;
  options.all_depth_steps = true;
  options.taps = true;
  // Given tokens then stand at the target and go through the depth transformer.
  options.force_given = true;
  options.kv = engine::ParseKvFormat(formats.kv);
  options.kv_prompt_pages = 0;  // the format at its worst
  model_ =
      std::make_unique<Model>(checkpoint, options, engine::MakeExecutor("cpu", formats.weights, 0));
}

TeacherForcing::~TeacherForcing() = default;

std::vector<Evaluation> TeacherForcing::Score(const Conversation& conversation) {
  const LmConfig& lm = *checkpoint_->lm_config();
  const auto streams = static_cast<size_t>(lm.streams());
  if (conversation.codes.size() != streams * conversation.frames) {
    throw InputError("conversation: expected " + std::to_string(streams) + " streams, found " +
                     std::to_string(conversation.codes.size()) + " tokens in " +
                     std::to_string(conversation.frames) + " frames");
  }
  std::vector<Evaluation> evaluations(conversation.frames);
  for (size_t e = 0; e < conversation.frames; ++e) {
    SetRow(*model_, Stage::kStep, static_cast<int64_t>(e));
    for (size_t s = 0; s < streams; ++s) {
      model_->given(0)[s] = conversation.codes[s * conversation.frames + e];
    }
    model_->Run();
    Evaluation& evaluation = evaluations[e];
    const auto take = [&](const std::string& tap) {
      const float* values = model_->Tap(tap, 0);
      evaluation.logits.emplace_back(values, values + model_->FindTap(tap)->width);
    };
    take("text_logits");
    for (int k = 0; k < lm.dep_q; ++k) take("audio_logits." + std::to_string(k));
    const auto* used = reinterpret_cast<const int32_t*>(model_->Tap("provided", 0));
    for (size_t k = 0; k < evaluation.logits.size(); ++k) {
      // Initial tokens, beyond the vocabulary, are no predictions.
      const auto width = static_cast<int32_t>(evaluation.logits[k].size());
      evaluation.tokens.push_back(used[k] < width ? used[k] : -1);
    }
  }
  return evaluations;
}

}  // namespace antiphon::cli
