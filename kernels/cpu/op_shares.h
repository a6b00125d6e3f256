// The ops that have files of their own, each for share `part` of `parts` (see RunOp in cpu_ops.h).
#pragma once

#include "kernels/cpu/cpu_ops.h"

namespace antiphon::kernels::cpu {

void LinearOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch);
void RopeAppendOp(const Run& run, const Op& op, int part, int parts);
void AttentionOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch);

}  // namespace antiphon::kernels::cpu
