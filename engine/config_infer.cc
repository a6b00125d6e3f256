// Configurations from tensor names and shapes, for folders without a config.json.
//
// Shapes give every width and count. What they cannot give takes the published models' values: head
// sizes (128 temporal, 64 depth and codec), context 3000, delays 0 for text and each speaker's
// first codebook and 1 for the others, RoPE with period 10000, SiLU gating.
#include <algorithm>
#include <numeric>

#include "engine/error.h"
#include "engine/model_config.h"

namespace antiphon::engine {
namespace {

class Shapes {
 public:
  Shapes(const TensorShapes& tensors, const std::string& origin)
      : tensors_(tensors), origin_(origin) {}

  bool Has(const std::string& name) const { return tensors_.contains(name); }

  // Extent `axis` of a tensor of `rank` axes.
  int At(const std::string& name, size_t rank, size_t axis) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw InputError(origin_ + ": not a model of this family: no tensor " + name +
                       " to infer its configuration from");
    }
    const std::vector<int64_t>& shape = found->second;
    if (shape.size() != rank || shape[axis] < 1 || shape[axis] > (1 << 24)) {
      throw InputError(origin_ + ": tensor " + name + ": expected " + std::to_string(rank) +
                       " axes of ordinary size, found another shape");
    }
    return static_cast<int>(shape[axis]);
  }

  // How many of prefix0suffix, prefix1suffix, ... there are.
  int Count(const std::string& prefix, const std::string& suffix) const {
    int count = 0;
    while (Has(prefix + std::to_string(count) + suffix)) ++count;
    return count;
  }

  // Tensor of an attention projection under any of its names.
  std::string InProjection(const std::string& layer) const {
    for (const char* name : {".self_attn.in_proj_weight", ".self_attn.in_proj.weight",
                             ".self_attn.in_projs.0.weight"}) {
      if (Has(layer + name)) return layer + name;
    }
    return layer + ".self_attn.in_proj_weight";
  }

 private:
  const TensorShapes& tensors_;
  const std::string& origin_;
};

int LargestHeadCount(int dim, int head_dim) { return std::max(1, dim / head_dim); }

NormKind NormOf(const Shapes& shapes, const std::string& prefix) {
  return shapes.Has(prefix + ".alpha") ? NormKind::kRmsNormF32 : NormKind::kLayerNorm;
}

TransformerConfig InferStack(const Shapes& shapes, const std::string& prefix, int head_dim,
                             const std::string& gating) {
  TransformerConfig stack;
  const std::string layer = prefix + ".layers.0";
  const std::string in = shapes.InProjection(layer);
  stack.dim = shapes.At(in, 2, 1);
  stack.heads = LargestHeadCount(stack.dim, head_dim);
  stack.layers = shapes.Count(prefix + ".layers.", in.substr(layer.size()));
  stack.norm = NormOf(shapes, layer + ".norm1");
  stack.layer_scale = shapes.Has(layer + ".layer_scale_1.scale");
  stack.cross_attention = shapes.Has(layer + ".cross_attention.in_proj_weight");
  if (shapes.Has(layer + ".linear1.weight")) {
    stack.gating = Gating::kNone;
    stack.hidden = shapes.At(layer + ".linear1.weight", 2, 0);
  } else {
    stack.gating = Gating::kSilu;
    stack.hidden = shapes.At(layer + gating + "linear_in.weight", 2, 0) / 2;
  }
  return stack;
}

// Rows of q, k and v together for one weight set.
int QkvRows(const TransformerConfig& stack) {
  return stack.dim + 2 * (stack.dim / stack.kv_repeat);
}

void InferDepth(const Shapes& shapes, LmConfig* lm) {
  const bool per_step = shapes.Has("depformer.layers.0.gating.0.linear_in.weight");
  lm->depth = InferStack(shapes, "depformer", 64, per_step ? ".gating.0." : ".gating.");
  lm->depth.position = PositionKind::kNone;
  lm->depth_weights_per_step = per_step;
  lm->depth_multi_linear = shapes.Has("depformer_in.1.weight");
  lm->depth_weight_sets =
      per_step ? shapes.Count("depformer.layers.0.gating.", ".linear_in.weight") : lm->dep_q;
  lm->depth_codebooks = lm->dep_q;
  if (shapes.Has("depformer_text_emb.low_rank.weight")) {
    lm->depth_low_rank = shapes.At("depformer_text_emb.low_rank.weight", 2, 1);
  }
  const std::string norm = "depformer_norms.0";
  lm->has_depth_norm = shapes.Has(norm + ".alpha") || shapes.Has(norm + ".weight");
  if (lm->has_depth_norm) lm->depth_norm = NormOf(shapes, norm);
  lm->depth_schedule.resize(static_cast<size_t>(lm->dep_q));
  std::iota(lm->depth_schedule.begin(), lm->depth_schedule.end(), 0);
  // A schedule cannot be told from shapes: sets fewer than steps leave it open.
  for (int& set : lm->depth_schedule) set = std::min(set, lm->depth_weight_sets - 1);
}

}  // namespace

TensorShapes ShapesOf(const SafeTensors& tensors) {
  TensorShapes shapes;
  for (const auto& [name, view] : tensors.tensors()) shapes[name] = view.shape;
  return shapes;
}

LmConfig InferLmConfig(const TensorShapes& tensors, const std::string& origin) {
  const Shapes shapes(tensors, origin);
  LmConfig lm;
  lm.temporal = InferStack(shapes, "transformer", 128, ".gating.");
  lm.temporal.context = 3000;
  lm.n_q = shapes.Count("emb.", ".weight");
  lm.dep_q = shapes.Count("linears.", ".weight");
  lm.card = shapes.At("emb.0.weight", 2, 0) - 1;
  lm.text_card = shapes.At("text_emb.weight", 2, 0) - 1;
  lm.text_card_out = shapes.At("text_linear.weight", 2, 0);
  lm.demux_second_stream = shapes.Has("text_emb.out1.weight");
  lm.extra_heads = shapes.Count("extra_heads.", ".weight");
  if (lm.extra_heads > 0) lm.extra_heads_dim = shapes.At("extra_heads.0.weight", 2, 0);
  if (lm.dep_q > 0) InferDepth(shapes, &lm);
  // Two speakers of n_q / 2 codebooks each; a depth transformer that models both is PersonaPlex's.
  // Text-to-speech models also generate all codebooks, but of one speaker, and their second text
  // stream or cross attention gives them away.
  const bool tts = lm.demux_second_stream || lm.temporal.cross_attention;
  const int speakers = !tts && lm.n_q % 2 == 0 && lm.n_q > 0 ? 2 : 1;
  const int per_speaker = lm.n_q / speakers;
  if (tts) lm.family = Family::kTts;
  if (speakers == 2 && lm.dep_q == lm.n_q) lm.family = Family::kPersonaPlex;
  lm.delays.assign(static_cast<size_t>(lm.streams()), 1);
  lm.delays[0] = 0;
  for (int q = 0; q < lm.n_q; q += per_speaker) lm.delays[static_cast<size_t>(q) + 1] = 0;
  return lm;
}

void AdaptToTensors(const TensorShapes& tensors, LmConfig* config) {
  if (config->family != Family::kPersonaPlex || config->dep_q != config->n_q) return;
  const auto packed = tensors.find("depformer.layers.0.self_attn.in_proj_weight");
  const int half = config->dep_q / 2;
  if (packed == tensors.end() || packed->second.empty() ||
      packed->second[0] != int64_t{half} * QkvRows(config->depth)) {
    return;
  }
  config->depth_codebooks = half;
  config->depth_weight_sets = half;
  for (size_t i = 0; i < config->depth_schedule.size(); ++i) {
    config->depth_schedule[i] = static_cast<int>(i) % half;
  }
}

MimiConfig InferMimiConfig(const TensorShapes& tensors, const std::string& origin) {
  const Shapes shapes(tensors, origin);
  MimiConfig mimi;
  mimi.n_filters = shapes.At("encoder.model.0.conv.conv.weight", 3, 0);
  mimi.kernel_size = shapes.At("encoder.model.0.conv.conv.weight", 3, 2);
  mimi.codebook_dim = shapes.At("quantizer.rvq_first.input_proj.weight", 3, 0);
  mimi.dimension = shapes.At("quantizer.rvq_first.input_proj.weight", 3, 1);
  const std::string books = "quantizer.rvq_rest.vq.layers.";
  const std::string first = "quantizer.rvq_first.vq.layers.0._codebook.cluster_usage";
  mimi.bins = shapes.At(first, 1, 0);
  mimi.codebooks = 1 + shapes.Count(books, "._codebook.cluster_usage");
  // Downsampling convolutions have kernels of twice their stride; they stand between residual
  // blocks.
  mimi.ratios.clear();
  mimi.n_residual_layers = 0;
  for (int module = 1; module < 256; ++module) {
    const std::string prefix = "encoder.model." + std::to_string(module);
    if (shapes.Has(prefix + ".block.1.conv.conv.weight")) {
      if (mimi.ratios.empty()) ++mimi.n_residual_layers;
      mimi.compress = shapes.At(prefix + ".block.1.conv.conv.weight", 3, 1) /
                      shapes.At(prefix + ".block.1.conv.conv.weight", 3, 0);
      mimi.residual_kernel_size = shapes.At(prefix + ".block.1.conv.conv.weight", 3, 2);
    } else if (shapes.Has(prefix + ".conv.conv.weight")) {
      const int out = shapes.At(prefix + ".conv.conv.weight", 3, 0);
      const int in = shapes.At(prefix + ".conv.conv.weight", 3, 1);
      const int kernel = shapes.At(prefix + ".conv.conv.weight", 3, 2);
      if (out == 2 * in) {
        mimi.ratios.insert(mimi.ratios.begin(), kernel / 2);
      } else {
        mimi.last_kernel_size = kernel;
      }
    }
  }
  const int stride = shapes.Has("downsample.conv.conv.conv.weight")
                         ? shapes.At("downsample.conv.conv.conv.weight", 3, 2) / 2
                         : 1;
  mimi.transformer = InferStack(shapes, "encoder_transformer.transformer", 64, ".gating.");
  mimi.transformer.norm = NormKind::kLayerNorm;
  mimi.transformer.context = 250;
  mimi.frame_rate_hz = static_cast<double>(mimi.sample_rate_hz) / (mimi.hop() * stride);
  return mimi;
}

}  // namespace antiphon::engine
