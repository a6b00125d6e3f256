// Names and shapes of every tensor that a configuration implies, in the published naming.
#include "engine/model_config.h"

namespace antiphon::engine {
namespace {

class Names {
 public:
  TensorShapes shapes;

  void Norm(const std::string& prefix, NormKind kind, int64_t dim) {
    if (IsLayerNorm(kind)) {
      shapes[prefix + ".weight"] = {dim};
      shapes[prefix + ".bias"] = {dim};
    } else {
      shapes[prefix + ".alpha"] = {1, 1, dim};
    }
  }

  // `sets`: weight sets; 0 for a stack without weights per step.
  void Transformer(const std::string& prefix, const TransformerConfig& stack, int sets) {
    const int64_t dim = stack.dim, many = sets > 0 ? sets : 1;
    for (int l = 0; l < stack.layers; ++l) {
      const std::string layer = prefix + ".layers." + std::to_string(l);
      Norm(layer + ".norm1", stack.norm, dim);
      Norm(layer + ".norm2", stack.norm, dim);
      shapes[layer + ".self_attn.in_proj_weight"] = {many * (dim + 2 * (dim / stack.kv_repeat)),
                                                     dim};
      shapes[layer + ".self_attn.out_proj.weight"] = {many * dim, dim};
      if (stack.layer_scale) {
        shapes[layer + ".layer_scale_1.scale"] = {dim};
        shapes[layer + ".layer_scale_2.scale"] = {dim};
      }
      if (stack.cross_attention) {
        shapes[layer + ".cross_attention.in_proj_weight"] = {3 * dim, dim};
        shapes[layer + ".cross_attention.out_proj.weight"] = {dim, dim};
        Norm(layer + ".norm_cross", NormKind::kLayerNorm, dim);
      }
      FeedForward(layer, stack, sets);
    }
  }

  void FeedForward(const std::string& layer, const TransformerConfig& stack, int sets) {
    const int64_t dim = stack.dim;
    if (stack.gating == Gating::kNone) {
      shapes[layer + ".linear1.weight"] = {stack.hidden, dim};
      shapes[layer + ".linear2.weight"] = {dim, stack.hidden};
      return;
    }
    for (int m = 0; m < (sets > 0 ? sets : 1); ++m) {
      const std::string gating =
          layer + ".gating." + (sets > 0 ? std::to_string(m) + "." : std::string());
      const int64_t hidden = stack.hidden_per_set.empty()
                                 ? stack.hidden
                                 : stack.hidden_per_set[static_cast<size_t>(m)];
      shapes[gating + "linear_in.weight"] = {2 * hidden, dim};
      shapes[gating + "linear_out.weight"] = {dim, hidden};
    }
  }

  // `low_rank`: width of the table, 0 for full width.
  void Embedding(const std::string& name, int64_t rows, int64_t width, int low_rank, bool demux) {
    const int64_t table = low_rank > 0 ? low_rank : width;
    shapes[name + ".weight"] = {rows, table};
    if (low_rank > 0) shapes[name + ".low_rank.weight"] = {width, table};
    if (demux) {
      shapes[name + ".out1.weight"] = {width, table};
      shapes[name + ".out2.weight"] = {width, table};
    }
  }

  void Convolution(const std::string& name, std::vector<int64_t> shape, int64_t out, bool bias) {
    shapes[name + ".weight"] = std::move(shape);
    if (bias) shapes[name + ".bias"] = {out};
  }
};

void AddConditioners(const LmConfig& config, Names* names) {
  for (const Conditioner& conditioner : config.conditioners) {
    const std::string prefix = "condition_provider.conditioners." + conditioner.name;
    if (conditioner.is_lut) {
      names->shapes[prefix + ".embed.weight"] = {conditioner.bins + 1, conditioner.dim};
    }
    names->shapes[prefix + ".output_proj.weight"] = {config.temporal.dim, conditioner.dim};
    names->shapes[prefix + ".learnt_padding"] = {1, 1, config.temporal.dim};
  }
}

void AddDepth(const LmConfig& config, Names* names) {
  const int64_t dim = config.depth.dim;
  const int sets = config.depth_weights_per_step ? config.depth_weight_sets : 0;
  names->Transformer("depformer", config.depth, sets);
  const int in = config.depth_multi_linear ? config.depth_weight_sets : 1;
  for (int m = 0; m < in; ++m) {
    names->shapes["depformer_in." + std::to_string(m) + ".weight"] = {dim, config.temporal.dim};
  }
  names->Embedding("depformer_text_emb", config.text_card + 1, dim, config.depth_low_rank,
                   config.demux_second_stream);
  for (int q = 0; q + 1 < config.depth_codebooks; ++q) {
    names->Embedding("depformer_emb." + std::to_string(q), config.card + 1, dim,
                     config.depth_low_rank, false);
  }
  for (int q = 0; q < config.depth_codebooks; ++q) {
    names->shapes["linears." + std::to_string(q) + ".weight"] = {config.card, dim};
    if (config.has_depth_norm) {
      names->Norm("depformer_norms." + std::to_string(q), config.depth_norm, dim);
    }
  }
}

void AddResidual(const MimiConfig& config, const std::string& module, int64_t channels,
                 Names* names) {
  const int64_t hidden = channels / config.compress;
  names->Convolution(module + ".block.1.conv.conv", {hidden, channels, config.residual_kernel_size},
                     hidden, true);
  names->Convolution(module + ".block.3.conv.conv", {channels, hidden, 1}, channels, true);
}

void AddSeanet(const MimiConfig& config, Names* names) {
  int64_t channels = config.n_filters;
  int module = 0;
  const auto at = [&](const char* side) {
    return std::string(side) + ".model." + std::to_string(module);
  };
  names->Convolution(at("encoder") + ".conv.conv", {channels, 1, config.kernel_size}, channels,
                     true);
  ++module;
  for (auto ratio = config.ratios.rbegin(); ratio != config.ratios.rend(); ++ratio) {
    for (int j = 0; j < config.n_residual_layers; ++j, ++module) {
      AddResidual(config, at("encoder"), channels, names);
    }
    ++module;  // ELU
    names->Convolution(at("encoder") + ".conv.conv", {2 * channels, channels, 2 * *ratio},
                       2 * channels, true);
    channels *= 2;
    ++module;
  }
  ++module;  // ELU
  names->Convolution(at("encoder") + ".conv.conv",
                     {config.dimension, channels, config.last_kernel_size}, config.dimension, true);

  module = 0;
  names->Convolution(at("decoder") + ".conv.conv", {channels, config.dimension, config.kernel_size},
                     channels, true);
  ++module;
  for (const int ratio : config.ratios) {
    ++module;  // ELU
    names->Convolution(at("decoder") + ".convtr.convtr", {channels, channels / 2, 2 * ratio},
                       channels / 2, true);
    channels /= 2;
    ++module;
    for (int j = 0; j < config.n_residual_layers; ++j, ++module) {
      AddResidual(config, at("decoder"), channels, names);
    }
  }
  ++module;  // ELU
  names->Convolution(at("decoder") + ".conv.conv", {1, channels, config.last_kernel_size}, 1, true);
}

void AddQuantizer(const MimiConfig& config, const std::string& part, int levels, Names* names) {
  if (levels <= 0) return;
  const std::string prefix = "quantizer." + part;
  names->shapes[prefix + ".input_proj.weight"] = {config.codebook_dim, config.dimension, 1};
  names->shapes[prefix + ".output_proj.weight"] = {config.dimension, config.codebook_dim, 1};
  for (int level = 0; level < levels; ++level) {
    const std::string book = prefix + ".vq.layers." + std::to_string(level) + "._codebook.";
    names->shapes[book + "embedding_sum"] = {config.bins, config.codebook_dim};
    names->shapes[book + "cluster_usage"] = {config.bins};
    names->shapes[book + "_initialized"] = {1};
  }
}

}  // namespace

TensorShapes ExpectedLmTensors(const LmConfig& config) {
  Names names;
  const int64_t dim = config.temporal.dim;
  for (int q = 0; q < config.n_q; ++q) {
    names.Embedding("emb." + std::to_string(q), config.card + 1, dim, 0, false);
  }
  names.Embedding("text_emb", config.text_card + 1, dim, 0, config.demux_second_stream);
  names.Transformer("transformer", config.temporal, 0);
  names.Norm("out_norm", config.temporal.norm, dim);
  names.shapes["text_linear.weight"] = {config.text_card_out, dim};
  for (int head = 0; head < config.extra_heads; ++head) {
    names.shapes["extra_heads." + std::to_string(head) + ".weight"] = {config.extra_heads_dim, dim};
  }
  if (config.dep_q > 0) AddDepth(config, &names);
  AddConditioners(config, &names);
  return std::move(names.shapes);
}

TensorShapes ExpectedMimiTensors(const MimiConfig& config) {
  Names names;
  AddSeanet(config, &names);
  for (const char* side : {"encoder", "decoder"}) {
    const std::string prefix = std::string(side) + "_transformer";
    names.Transformer(prefix + ".transformer", config.transformer, 0);
    if (config.transformer.dim != config.dimension) {
      names.shapes[prefix + ".input_proj.weight"] = {config.transformer.dim, config.dimension};
      names.shapes[prefix + ".output_projs.0.weight"] = {config.dimension, config.transformer.dim};
    }
  }
  const int stride = config.resample_stride();
  if (stride > 1) {
    names.Convolution("downsample.conv.conv.conv", {config.dimension, config.dimension, 2 * stride},
                      0, false);
    names.Convolution("upsample.convtr.convtr.convtr", {config.dimension, 1, 2 * stride}, 0, false);
  }
  AddQuantizer(config, "rvq_first", 1, &names);
  AddQuantizer(config, "rvq_rest", config.codebooks - 1, &names);
  return std::move(names.shapes);
}

}  // namespace antiphon::engine
