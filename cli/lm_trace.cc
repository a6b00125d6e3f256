#include "cli/lm_trace.h"

#include <algorithm>

namespace antiphon::cli {

using kernels::Row;
using kernels::Stage;

int LmTrace::AddRow(int32_t slot, int64_t position) {
  kernels::Control::Rows& rows = model_.rows(Stage::kStep);
  Row row;
  row.slot = slot;
  row.position = position;
  rows.rows[rows.count] = row;
  std::fill_n(model_.given(rows.count), lm_.streams(), kernels::kNotGiven);
  return rows.count++;
}

Row& LmTrace::Row0(int64_t position) {
  model_.rows(Stage::kStep).count = 0;
  return model_.rows(Stage::kStep).rows[AddRow(0, position)];
}

void LmTrace::Record(int row, int out_width, bool depth_skipped) {
  const auto append = [](auto* out, size_t count, auto value) {
    out->insert(out->end(), count, value);
  };
  const auto dep_q = static_cast<size_t>(lm_.dep_q);
  const auto card = static_cast<size_t>(lm_.card);
  if (row < 0) {
    append(&input_tokens_, static_cast<size_t>(lm_.streams()), kernels::kNoToken);
    append(&text_tokens_, 1, kernels::kNoToken);
    append(&audio_tokens_, dep_q, kernels::kNoToken);
    append(&out_tokens_, static_cast<size_t>(out_width), kernels::kNoToken);
    append(&transformer_out_, static_cast<size_t>(lm_.temporal.dim), 0.0F);
    append(&text_logits_, static_cast<size_t>(lm_.text_card_out), 0.0F);
    append(&audio_logits_, dep_q * card, 0.0F);
    append(&depth_inputs_, dep_q, kernels::kNoToken);
    return;
  }
  const TapRecorder taps(model_);
  taps.Ints("input_tokens", row, 0, lm_.streams(), &input_tokens_);
  taps.Ints("used", row, 0, 1, &text_tokens_);
  taps.Ints("sampled", row, 1, lm_.dep_q, &audio_tokens_);
  taps.Ints("used", row, 0, lm_.dep_q, &depth_inputs_);
  taps.Floats("transformer_out", row, &transformer_out_);
  taps.Floats("text_logits", row, &text_logits_);
  for (int q = 0; q < lm_.dep_q; ++q) {
    if (depth_skipped) {
      append(&audio_logits_, card, 0.0F);
    } else {
      taps.Floats("audio_logits." + std::to_string(q), row, &audio_logits_);
    }
  }
  const int32_t* out = model_.out_tokens(row);
  out_tokens_.insert(out_tokens_.end(), out, out + out_width);
}

void LmTrace::MaskStoredAudio(int32_t delay) {
  const auto dep_q = static_cast<size_t>(lm_.dep_q);
  for (size_t i = 0; i < audio_tokens_.size(); ++i) {
    const auto step = static_cast<int32_t>(i / dep_q);
    if (step < lm_.delays[i % dep_q + 1] + delay) audio_tokens_[i] = kernels::kZeroToken;
  }
}

void LmTrace::Compare(const GoldenFile& io, CheckReport& report, bool with_out_tokens) const {
  const auto tokens = [&](const std::string& name, const std::vector<int32_t>& found) {
    if (io.Has(name)) report.Tokens(io.name + "." + name, io.IntsOf(name), found);
  };
  const auto floats = [&](const std::string& name, const std::vector<float>& found) {
    if (io.Has(name)) report.Floats(io.name + "." + name, io.FloatsOf(name), found);
  };
  tokens("input_tokens", input_tokens_);
  floats("transformer_out", transformer_out_);
  floats("text_logits", text_logits_);
  floats("audio_logits", audio_logits_);
  tokens("depformer_in_tokens", depth_inputs_);
  tokens("text_tokens", text_tokens_);
  tokens("audio_tokens", audio_tokens_);
  if (with_out_tokens) tokens("out_tokens", out_tokens_);
}

}  // namespace antiphon::cli
