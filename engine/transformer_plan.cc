#include "engine/transformer_plan.h"

#include <cmath>

#include "engine/checkpoint.h"
#include "engine/error.h"

namespace antiphon::engine {

using kernels::Activation;
using kernels::Op;
using kernels::OpKind;

namespace {

Activation ActivationOf(Gating gating) {
  switch (gating) {
    case Gating::kNone:
    case Gating::kGelu:
      return Activation::kGelu;
    case Gating::kSilu:
      return Activation::kSilu;
    case Gating::kRelu:
      return Activation::kRelu;
    case Gating::kSigmoid:
      return Activation::kSigmoid;
    case Gating::kTanh:
      return Activation::kTanh;
    case Gating::kIdentity:
      return Activation::kNone;
  }
  return Activation::kNone;
}

kernels::Rope RopeOf(PositionKind position) {
  if (position == PositionKind::kRope) return kernels::Rope::kInterleaved;
  if (position == PositionKind::kRopeConcat) return kernels::Rope::kConcat;
  return kernels::Rope::kNone;
}

// freq_j = exp(-j * 2 ln(max_period) / head_dim), in float32 (section 1.2).
int32_t RopeFrequencies(PlanBuilder& builder, const TransformerConfig& config,
                        const std::string& prefix) {
  std::vector<float> frequencies(static_cast<size_t>(config.head_dim() / 2));
  const auto factor =
      static_cast<float>(2.0 * std::log(double{config.max_period}) / config.head_dim());
  for (size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] = std::exp(-static_cast<float>(j) * factor);
  }
  return builder.Vector(prefix + ".rope_frequencies", std::move(frequencies));
}

class Stack {
 public:
  Stack(PlanBuilder& builder, const TransformerConfig& config, const TransformerRun& run,
        const View& x)
      : builder_(builder), config_(config), run_(run), x_(x) {}

  void Append() {
    if (config_.head_dim() > kernels::kMaxHeadDim) {
      throw InputError(run_.prefix + ": attention heads of " + std::to_string(config_.head_dim()) +
                       " dimensions, at most " + std::to_string(kernels::kMaxHeadDim) +
                       " are supported");
    }
    if (config_.position == PositionKind::kSin) {
      Op& op = builder_.Append(OpKind::kSinPosition, x_, x_);
      op.max_period = config_.max_period;
      SetPosition(op);
    }
    frequencies_ = RopeFrequencies(builder_, config_, run_.prefix);
    for (int layer = 0; layer < config_.layers; ++layer) {
      prefix_ = run_.prefix + ".layers." + std::to_string(layer);
      const bool last = run_.keys_only && layer + 1 == config_.layers;
      if (!AppendAttention(layer, last)) return;
      AppendFeedForward();
    }
  }

 private:
  void SetPosition(Op& op) const {
    op.fixed_position = run_.fixed_position >= 0;
    op.index = run_.fixed_position >= 0 ? run_.fixed_position : 0;
  }

  // Weight set suffix: a packed tensor is split into one weight per set.
  std::string SetName(const std::string& name) const {
    return prefix_ + "." + name + "#" + std::to_string(run_.weight_set);
  }

  int32_t LayerScale(int which) const {
    const std::string name = prefix_ + ".layer_scale_" + std::to_string(which) + ".scale";
    if (!run_.tensors->Has(name)) return kernels::kNoWeight;
    return builder_.Vector(name, run_.tensors->Get(name, {config_.dim}));
  }

  // False if only keys and values were wanted.
  bool AppendAttention(int layer, bool keys_only) {
    const int dim = config_.dim, kv_dim = dim / config_.kv_repeat;
    const int qkv_rows = dim + 2 * kv_dim;
    const NormWeights norm =
        AddNorm(builder_, *run_.tensors, prefix_ + ".norm1", config_.norm, dim);
    const View normed = builder_.Scratch(x_.steps, dim);
    AppendNorm(builder_, norm, x_, normed);

    const View qkv = builder_.Scratch(x_.steps, qkv_rows);
    builder_.Linear(normed, qkv, Projection("in_proj", qkv_rows, dim));
    builder_.Free(normed);

    Op& append = builder_.Append(OpKind::kRopeAppend, qkv, qkv);
    append.rope = RopeOf(config_.position);
    append.weight = frequencies_;
    SetAttention(append, layer);
    if (keys_only) {
      builder_.Free(qkv);
      return false;
    }
    const View mixed = builder_.Scratch(x_.steps, dim);
    Op& attention = builder_.Append(OpKind::kAttention, qkv, mixed);
    attention.context = config_.context;
    attention.drop_oldest = run_.window == AttentionWindow::kDropOldest;
    attention.per_query = run_.window == AttentionWindow::kOneShot;
    SetAttention(attention, layer);
    builder_.Free(qkv);

    Op& out = builder_.Linear(mixed, x_, Projection("out_proj", dim, dim));
    out.accumulate = true;
    out.scale = LayerScale(1);
    builder_.Free(mixed);
    return true;
  }

  void SetAttention(Op& op, int layer) const {
    if (run_.paged) {
      op.kv_layer = layer;
    } else {
      op.aux = run_.rings[static_cast<size_t>(layer)].keys;
      op.aux2 = run_.rings[static_cast<size_t>(layer)].values;
    }
    op.heads = config_.heads;
    op.kv_heads = config_.heads / config_.kv_repeat;
    op.head_dim = config_.head_dim();
    op.capacity = run_.capacity;
    SetPosition(op);
  }

  int32_t Projection(const std::string& what, int rows, int cols) const {
    const TensorView view = AttentionProjection(*run_.tensors, prefix_, what, run_.weight_set,
                                                run_.weight_sets, rows, cols);
    return builder_.Matrix(SetName(what), view, rows, cols);
  }

  void AppendFeedForward() {
    const int dim = config_.dim;
    const NormWeights norm =
        AddNorm(builder_, *run_.tensors, prefix_ + ".norm2", config_.norm, dim);
    const View normed = builder_.Scratch(x_.steps, dim);
    AppendNorm(builder_, norm, x_, normed);
    const View hidden = config_.gating == Gating::kNone ? Plain(normed) : Gated(normed);
    const std::string out_name =
        config_.gating == Gating::kNone ? prefix_ + ".linear2.weight" : GatingName("linear_out");
    const int32_t weight = builder_.Matrix(
        out_name, run_.tensors->Get(out_name, {dim, hidden.width}), dim, hidden.width);
    Op& out = builder_.Linear(hidden, x_, weight);
    out.accumulate = true;
    out.scale = LayerScale(2);
    builder_.Free(hidden);
  }

  View Plain(const View& normed) {
    const int hidden = config_.hidden;
    const std::string name = prefix_ + ".linear1.weight";
    const int32_t weight =
        builder_.Matrix(name, run_.tensors->Get(name, {hidden, config_.dim}), hidden, config_.dim);
    const View out = builder_.Scratch(x_.steps, hidden);
    builder_.Linear(normed, out, weight).activation = Activation::kGelu;
    builder_.Free(normed);
    return out;
  }

  View Gated(const View& normed) {
    const int hidden = config_.hidden_per_set.empty()
                           ? config_.hidden
                           : config_.hidden_per_set[static_cast<size_t>(run_.weight_set)];
    const std::string name = GatingName("linear_in");
    const int32_t weight = builder_.Matrix(name, run_.tensors->Get(name, {2 * hidden, config_.dim}),
                                           2 * hidden, config_.dim);
    const View both = builder_.Scratch(x_.steps, 2 * hidden);
    builder_.Linear(normed, both, weight);
    builder_.Free(normed);
    const View out = builder_.Scratch(x_.steps, hidden);
    builder_.Append(OpKind::kGate, both, out).activation = ActivationOf(config_.gating);
    builder_.Free(both);
    return out;
  }

  // `gating.linear_in.weight`, or per weight set `gating.{m}.linear_in.weight`.
  std::string GatingName(const std::string& what) const {
    const std::string per_set =
        prefix_ + ".gating." + std::to_string(run_.weight_set) + "." + what + ".weight";
    return run_.tensors->Has(per_set) ? per_set : prefix_ + ".gating." + what + ".weight";
  }

  PlanBuilder& builder_;
  const TransformerConfig& config_;
  const TransformerRun& run_;
  const View& x_;
  std::string prefix_;
  int32_t frequencies_ = kernels::kNoWeight;
};

}  // namespace

void AppendTransformer(PlanBuilder& builder, const TransformerConfig& config,
                       const TransformerRun& run, const View& x) {
  Stack(builder, config, run, x).Append();
}

}  // namespace antiphon::engine
