#include "engine/depth_plan.h"

#include "engine/embedding_plan.h"
#include "engine/transformer_plan.h"

namespace antiphon::engine {

using kernels::Op;
using kernels::OpKind;

namespace {

class Depth {
 public:
  Depth(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
        const LmPlanOptions& options, const View& temporal)
      : builder_(builder),
        config_(config),
        tensors_(tensors),
        options_(options),
        temporal_(temporal) {}

  void Append() {
    // Keys and values of the steps so far live for this evaluation only.
    for (int layer = 0; layer < config_.depth.layers; ++layer) {
      const int width = config_.dep_q * config_.depth.dim / config_.depth.kv_repeat;
      views_.push_back(builder_.Scratch(1, width));
      views_.push_back(builder_.Scratch(1, width));
      rings_.push_back({views_[views_.size() - 2].ref, views_.back().ref});
    }
    for (int step = 0; step < options_.depth_steps; ++step) AppendStep(step);
    for (const View& view : views_) builder_.Free(view);
  }

 private:
  void AppendStep(int step) {
    const int dim = config_.depth.dim;
    const int set = config_.depth_schedule[static_cast<size_t>(step)];
    const View x = builder_.Scratch(1, dim);
    const int in_set = config_.depth_multi_linear ? set : 0;
    const std::string in_name = "depformer_in." + std::to_string(in_set) + ".weight";
    const TensorView in = tensors_.Get(in_name, {dim, temporal_.width});
    builder_.Linear(temporal_, x, builder_.Matrix(in_name, in, dim, temporal_.width));
    AppendPreviousToken(step, x);

    TransformerRun run;
    run.tensors = &tensors_;
    run.prefix = "depformer";
    run.weight_set = config_.depth_weights_per_step ? set : 0;
    run.weight_sets = config_.depth_weights_per_step ? config_.depth_weight_sets : 1;
    run.rings = rings_;
    run.capacity = config_.dep_q;
    run.fixed_position = step;
    run.window = options_.window;
    TransformerConfig stack = config_.depth;
    // The quirk of section 4.2 counts from the ring's size, which here is dep_q.
    if (options_.window == AttentionWindow::kDropOldest) stack.context = config_.dep_q;
    AppendTransformer(builder_, stack, run, x);
    AppendHead(step, x);
    builder_.Free(x);
  }

  void AppendPreviousToken(int step, const View& x) {
    View token;
    token.ref = builder_.plan().tokens.used;
    token.ref.offset += step;
    token.width = 1;
    token.step = 1;
    Embedding embedding;
    embedding.low_rank = config_.depth_low_rank;
    if (step == 0) {
      embedding.name = "depformer_text_emb";
      embedding.rows = config_.text_card + 1;
      embedding.demux = config_.demux_second_stream;
    } else {
      embedding.name = "depformer_emb." + std::to_string(config_.depth_codebook(step - 1));
      embedding.rows = config_.card + 1;
    }
    AppendEmbedding(builder_, tensors_, embedding, token, x, true);
  }

  void AppendHead(int step, const View& x) {
    const int codebook = config_.depth_codebook(step);
    View y = x;
    if (config_.has_depth_norm) {
      const NormWeights norm =
          AddNorm(builder_, tensors_, "depformer_norms." + std::to_string(codebook),
                  config_.depth_norm, x.width);
      y = builder_.Scratch(1, x.width);
      AppendNorm(builder_, norm, x, y);
    }
    const std::string name = "linears." + std::to_string(codebook) + ".weight";
    const TensorView head = tensors_.Get(name, {config_.card, x.width});
    const View logits = builder_.Scratch(1, config_.card);
    builder_.Linear(y, logits, builder_.Matrix(name, head, config_.card, x.width));
    builder_.Tap("audio_logits." + std::to_string(step), logits);
    Op& sample = builder_.Append(OpKind::kSample, logits, logits);
    sample.index = step + 1;
    builder_.Free(logits);
    if (config_.has_depth_norm) builder_.Free(y);
  }

  PlanBuilder& builder_;
  const LmConfig& config_;
  const SafeTensors& tensors_;
  const LmPlanOptions& options_;
  const View& temporal_;
  std::vector<View> views_;
  std::vector<KvRing> rings_;
};

}  // namespace

void AppendDepth(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                 const LmPlanOptions& options, const View& temporal) {
  Depth(builder, config, tensors, options, temporal).Append();
}

}  // namespace antiphon::engine
