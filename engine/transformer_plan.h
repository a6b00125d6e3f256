// Ops of one transformer stack (tests/golden/ARCHITECTURE.md section 1): the temporal transformer,
// the depth transformer with its weights per step, and the codec's two.
#pragma once

#include <string>
#include <vector>

#include "engine/plan_builder.h"

namespace antiphon::engine {

// Key and value rings of one layer: [slot or row, kv_heads, capacity, head_dim] each.
struct KvRing {
  kernels::Ref keys;
  kernels::Ref values;
};

// What a run of the stack is about.
struct TransformerRun {
  const SafeTensors* tensors = nullptr;
  std::string prefix;  // "transformer", "depformer", "encoder_transformer.transformer"
  int weight_set = 0;  // which of `weight_sets` (section 1.4)
  int weight_sets = 1;
  bool paged = false;         // keys and values in the paged cache, layer by layer
  std::vector<KvRing> rings;  // otherwise: [layers]
  int capacity = 0;           // positions in a ring
  int fixed_position = -1;    // depth transformer: position of every row; -1: the row's own
  AttentionWindow window = AttentionWindow::kStreaming;
  bool keys_only = false;  // stop once the last layer's keys and values are stored (prefill)
};

// Appends the stack's ops, in place on the residual stream x [row, steps, dim].
void AppendTransformer(PlanBuilder& builder, const TransformerConfig& config,
                       const TransformerRun& run, const View& x);

}  // namespace antiphon::engine
