// Ops of the depth transformer (tests/golden/ARCHITECTURE.md 3.2): the codes of one frame, one
// after another, each fed the one before.
#pragma once

#include "engine/lm_plan.h"
#include "engine/plan_builder.h"

namespace antiphon::engine {

// temporal: out_norm'ed temporal output [row, dim]. Samples streams 1..options.depth_steps.
void AppendDepth(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                 const LmPlanOptions& options, const View& temporal);

}  // namespace antiphon::engine
