// Ops of the Mimi codec (tests/golden/ARCHITECTURE.md section 2): one frame of sound to codes, and
// codes to one frame of sound, streaming, for all rows.
#pragma once

#include "engine/plan_builder.h"

namespace antiphon::engine {

struct MimiPlanOptions {
  int codebooks = 8;  // levels used, semantic first
  AttentionWindow window = AttentionWindow::kStreaming;
  kernels::Ref codes_out;  // state [slot, codebooks]: where encode puts codes
  kernels::Ref codes_in;   // state [slot, codebooks]: what decode reads
};

// pcm: io [row, frame_samples]. Sets the stage itself (kEncode / kDecode). Throws InputError.
void AppendMimiEncode(PlanBuilder& builder, const MimiConfig& config, const SafeTensors& tensors,
                      const MimiPlanOptions& options, const kernels::Ref& pcm);
void AppendMimiDecode(PlanBuilder& builder, const MimiConfig& config, const SafeTensors& tensors,
                      const MimiPlanOptions& options, const kernels::Ref& pcm);

}  // namespace antiphon::engine
