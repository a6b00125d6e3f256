// Everything about a model that is decided before its weights are read: the plans of a tick by
// batch bucket, the plan of prefill, and the sizes of what outlives a run. Model runs them;
// capacity is computed from them alone.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/plan_builder.h"
#include "kernels/plan.h"

namespace antiphon::engine {

struct ModelOptions {
  int slots = 1;
  bool with_codec = true;        // plan Mimi encode and decode, where the checkpoint has it
  bool with_lm = true;           // plan the LM, where the checkpoint has it
  bool echo = false;             // decode what encode produced (no LM between)
  int prefill_rows = 16;         // positions of prompt per prefill run; 0: no prefill plan
  bool all_depth_steps = false;  // compute also those that nothing reads (for checks)
  bool force_given = false;      // PersonaPlex stepping; set for that family by default
  AttentionWindow window = AttentionWindow::kStreaming;
  bool taps = false;  // keep named intermediates; one plan for all slots
  int codebooks = 0;  // Mimi levels; 0: Checkpoint::mimi_codebooks()
  kernels::KvFormat kv = kernels::KvFormat::kF32;  // keys and values of the temporal transformer
  int kv_prompt_pages = 2;  // kInt4: first pages (64 positions) of a session that stay int8
  int kv_pool_pages = 0;    // pages in the pool; 0: enough for every slot
};

struct ModelPlans {
  ModelOptions options;  // as given, with what the checkpoint decides filled in
  // The weights' readers point into the checkpoint.
  std::unique_ptr<ModelLayout> layout;
  std::vector<kernels::Plan> plans;  // by bucket, ascending; the prefill plan last if there is one
  size_t tick_plans = 0;             // how many of them are ticks
  kernels::KvShape kv;               // no layers without an LM
  kernels::TokenLayout tokens;
  kernels::Ref pcm_in, pcm_out, embedding;  // io
  int frame_samples = 0;                    // 0 without the codec

  // The plan of a tick of `rows` rows; null if no bucket is that large.
  const kernels::Plan* Tick(int rows) const;
  const kernels::Plan* Prefill() const {
    return tick_plans < plans.size() ? &plans.back() : nullptr;
  }
  kernels::ArenaSizes Sizes() const {
    return {layout->state.total_elements(), layout->io.total_elements(), kv};
  }
};

// Reads shapes and small vectors, no matrices. Throws InputError. The checkpoint must outlive the
// result.
ModelPlans PlanModel(const Checkpoint& checkpoint, const ModelOptions& options);

}  // namespace antiphon::engine
