// Ops of the language model (tests/golden/ARCHITECTURE.md section 3): token timeline, temporal
// transformer, depth transformer and sampling, for one evaluation of every row.
#pragma once

#include "engine/plan_builder.h"

namespace antiphon::engine {

struct LmPlanOptions {
  // Depth steps to compute: all dep_q, or fewer where nothing reads the rest (PersonaPlex's steps
  // for the caller's own codebooks, whose tokens are always given).
  int depth_steps = 0;
  // PersonaPlex stepping (section 4.1): given values force the target position.
  bool force_given = false;
  AttentionWindow window = AttentionWindow::kStreaming;
  int agent_codes = 0, user_codes = 0;  // [slot, agent_codes] / [slot, user_codes] in state
};

// Depth steps whose codes reach the output or a later step's input during a conversation.
int NeededDepthSteps(const LmConfig& config);

// Token layout with its buffers; part of the plan. Adds the buffers to the model's layout.
kernels::TokenLayout MakeTokenLayout(PlanBuilder& builder, const LmConfig& config,
                                     const LmPlanOptions& options);

// Stage kStep: one evaluation with sampling. Stage kPrefill: keys and values only, for forced
// tokens or given embeddings (io "embedding" [row, dim]). Throws InputError where the model has a
// part that the engine does not run (cross attention).
void AppendLmStep(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                  const LmPlanOptions& options);
void AppendLmPrefill(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                     const LmPlanOptions& options);

}  // namespace antiphon::engine
