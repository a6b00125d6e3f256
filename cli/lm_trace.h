// What a golden LM run records of every evaluation, in the layout of the golden files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/check.h"

namespace antiphon::cli {

class LmTrace {
 public:
  LmTrace(engine::Model& model, const engine::LmConfig& lm) : model_(model), lm_(lm) {}

  // Adds a greedy row to the step stage, nothing given; its index.
  int AddRow(int32_t slot, int64_t position);
  // The only row of the step stage, slot 0.
  kernels::Row& Row0(int64_t position);

  // After a run: appends the row's tensors; row -1 stands for a slot that was not executed.
  // `out_width` is the number of streams that the golden vectors hold. Where `depth_skipped`, depth
  // logits are zero.
  void Record(int row, int out_width, bool depth_skipped = false);

  // Tokens stored of codebook q at step t are -1 while t < delays[q + 1] + delay (TTS).
  void MaskStoredAudio(int32_t delay);

  // Compares every recorded tensor that the file has.
  void Compare(const GoldenFile& io, CheckReport& report, bool with_out_tokens = true) const;

  const std::vector<int32_t>& out_tokens() const { return out_tokens_; }

 private:
  engine::Model& model_;
  const engine::LmConfig& lm_;
  std::vector<int32_t> input_tokens_, text_tokens_, audio_tokens_, out_tokens_, depth_inputs_;
  std::vector<float> transformer_out_, text_logits_, audio_logits_;
};

}  // namespace antiphon::cli
