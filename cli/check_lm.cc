// Golden runs of the LM without a codec: greedy streaming, forced text, batches with sessions that
// join and pause, teacher forcing, and the sampling rule.
#include <algorithm>
#include <cmath>

#include "cli/check.h"
#include "cli/lm_trace.h"
#include "kernels/sampling.h"

namespace antiphon::cli {

using engine::LmConfig;
using engine::Model;
using engine::ModelOptions;
using kernels::Row;
using kernels::Stage;

namespace {

std::unique_ptr<Model> MakeLm(const Checkpoints& checkpoint, int slots, bool force_given,
                              const CheckOptions& check) {
  ModelOptions options;
  options.slots = slots;
  options.with_codec = false;
  options.prefill_rows = 0;
  options.all_depth_steps = true;
  options.force_given = force_given;
  return MakeCheckedModel(checkpoint, options, check);
}

}  // namespace

void CheckLmRun(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report) {
  const LmConfig& lm = *checkpoint->lm_config();
  const std::unique_ptr<Model> model = MakeLm(checkpoint, 1, false, report.options());
  const std::vector<int32_t> user = io.IntsOf("user_codes");
  const int users = lm.user_codes();
  const int steps = static_cast<int>(user.size()) / users;
  LmTrace trace(*model, lm);
  for (int t = 0; t < steps; ++t) {
    trace.Row0(t);
    for (int u = 0; u < users; ++u) {
      model->given(0)[1 + lm.dep_q + u] = user[static_cast<size_t>(u * steps + t)];
    }
    model->Run();
    trace.Record(0, 1 + lm.dep_q);
  }
  trace.Compare(io, report);
  std::vector<int32_t> valid;
  for (int t = 0; t < steps; ++t) valid.push_back(t + 1 > lm.max_delay() ? 1 : 0);
  report.Tokens(io.name + ".out_valid", io.IntsOf("out_valid"), valid);
}

void CheckForcedRun(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report) {
  const LmConfig& lm = *checkpoint->lm_config();
  const std::unique_ptr<Model> model = MakeLm(checkpoint, 1, false, report.options());
  const std::vector<int32_t> forced = io.IntsOf("forced_text");
  const int32_t delay = io.IntsOf("delay_steps")[0];
  LmTrace trace(*model, lm);
  std::vector<int32_t> sampled_audio, sampled_text;
  const TapRecorder taps(*model);
  for (size_t t = 0; t < forced.size(); ++t) {
    Row& row = trace.Row0(static_cast<int64_t>(t));
    row.forced_text = forced[t];
    row.audio_delay = delay;
    for (int s = 1 + lm.dep_q; s <= lm.n_q; ++s) model->given(0)[s] = kernels::kZeroToken;
    model->Run();
    trace.Record(0, 1 + lm.dep_q, static_cast<int32_t>(t) < delay);
    taps.Ints("sampled", 0, 0, 1, &sampled_text);
    taps.Ints("sampled", 0, 1, lm.dep_q, &sampled_audio);
  }
  // What is stored of a codebook is -1 until its delay has passed.
  trace.MaskStoredAudio(delay);
  trace.Compare(io, report);
  report.Tokens(io.name + ".sampled_text", io.IntsOf("sampled_text"), sampled_text);
  report.Tokens(io.name + ".sampled_audio", io.IntsOf("sampled_audio"), sampled_audio);
}

void CheckBatch(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report) {
  const LmConfig& lm = *checkpoint->lm_config();
  const std::vector<int64_t>& shape = io.tensors->Get("exec_mask").shape;
  const auto steps = static_cast<size_t>(shape[0]), slots = static_cast<size_t>(shape[1]);
  const std::unique_ptr<Model> model =
      MakeLm(checkpoint, static_cast<int>(slots), false, report.options());
  const std::vector<int32_t> exec = io.IntsOf("exec_mask"), reset = io.IntsOf("reset_mask");
  const std::vector<int32_t> user = io.IntsOf("user_codes");
  const auto users = static_cast<size_t>(lm.user_codes());
  std::vector<int64_t> position(slots, 0);
  LmTrace trace(*model, lm);
  for (size_t t = 0; t < steps; ++t) {
    kernels::Control::Rows& rows = model->rows(Stage::kStep);
    rows.count = 0;
    std::vector<int> row_of(slots, -1);
    for (size_t s = 0; s < slots; ++s) {
      if (reset[t * slots + s] != 0) position[s] = 0;
      if (exec[t * slots + s] == 0) continue;
      row_of[s] = rows.count;
      trace.AddRow(static_cast<int32_t>(s), position[s]++);
      for (size_t u = 0; u < users; ++u) {
        model->given(row_of[s])[static_cast<size_t>(1 + lm.dep_q) + u] =
            user[(t * slots + s) * users + u];
      }
    }
    model->Run();
    for (size_t s = 0; s < slots; ++s) trace.Record(row_of[s], 1 + lm.dep_q);
  }
  trace.Compare(io, report);
}

void CheckSampling(const GoldenFile& io, CheckReport& report) {
  const std::vector<int64_t>& shape = io.tensors->Get("logits").shape;
  const auto rows = static_cast<size_t>(shape[0]), n = static_cast<size_t>(shape[1]);
  const std::vector<float> logits = io.FloatsOf("logits");
  std::vector<kernels::Candidate> candidates(n);
  for (const auto& [name, view] : io.tensors->tensors()) {
    const size_t dot = name.rfind(".params");
    if (dot == std::string::npos) continue;
    const std::string rule = name.substr(0, dot);
    const std::vector<float> params = io.FloatsOf(name), noise = io.FloatsOf(rule + ".noise");
    std::vector<int32_t> found;
    for (size_t r = 0; r < rows; ++r) {
      found.push_back(kernels::SampleToken(logits.data() + r * n, static_cast<int32_t>(n),
                                           params[0], static_cast<int32_t>(params[1]),
                                           candidates.data(),
                                           noise.data() + r * (noise.size() / rows), 0, 0, 0));
    }
    report.Tokens(io.name + "." + rule, io.IntsOf(rule + ".tokens"), found);
  }
}

void CheckTeacherForced(const Checkpoints& checkpoint, const GoldenFile& codes,
                        const GoldenFile& out, CheckReport& report) {
  const LmConfig& lm = *checkpoint->lm_config();
  const std::vector<int64_t>& shape = codes.tensors->Get("codes").shape;
  const auto batch = static_cast<size_t>(shape[0]), streams = static_cast<size_t>(shape[1]);
  const auto length = static_cast<size_t>(shape[2]);
  const std::unique_ptr<Model> model =
      MakeLm(checkpoint, static_cast<int>(batch), true, report.options());
  const std::vector<int32_t> tokens = codes.IntsOf("codes");
  std::vector<float> text,
      audio(batch * static_cast<size_t>(lm.dep_q) * length * static_cast<size_t>(lm.card), NAN);
  text.assign(batch * length * static_cast<size_t>(lm.text_card_out), NAN);
  const TapRecorder taps(*model);
  // With every value given, a call teacher-forces: time w stands at position w + delay, and call w
  // + 1 evaluates position w, so that the codes of time w - 1 are given at call w.
  for (size_t e = 0; e < length; ++e) {
    model->rows(Stage::kStep).count = 0;
    LmTrace trace(*model, lm);
    for (size_t b = 0; b < batch; ++b) {
      trace.AddRow(static_cast<int32_t>(b), static_cast<int64_t>(e));
      for (size_t s = 0; s < streams; ++s) {
        model->given(static_cast<int>(b))[s] = tokens[(b * streams + s) * length + e];
      }
    }
    model->Run();
    for (size_t b = 0; b < batch; ++b) {
      std::vector<float> row;
      taps.Floats("text_logits", static_cast<int>(b), &row);
      std::copy(row.begin(), row.end(),
                text.begin() + static_cast<std::ptrdiff_t>((b * length + e) * row.size()));
      for (int k = 0; k < lm.dep_q; ++k) {
        const int delay = lm.delays[static_cast<size_t>(k) + 1];
        if (static_cast<int>(e) < delay) continue;
        row.clear();
        taps.Floats("audio_logits." + std::to_string(k), static_cast<int>(b), &row);
        const size_t at = ((b * static_cast<size_t>(lm.dep_q) + static_cast<size_t>(k)) * length +
                           e - static_cast<size_t>(delay)) *
                          row.size();
        std::copy(row.begin(), row.end(), audio.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  const auto masked = [&](const std::string& name, const std::vector<float>& found) {
    const std::vector<int32_t> mask = out.IntsOf(name == "logits" ? "mask" : "text_mask");
    std::vector<float> expected = out.FloatsOf(name), kept = found;
    const size_t width = expected.size() / mask.size();
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) continue;
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(i * width), width, 0.0F);
      std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(i * width), width, 0.0F);
    }
    report.Floats(out.name + "." + name, expected, kept);
  };
  masked("logits", audio);
  masked("text_logits", text);
}

}  // namespace antiphon::cli
