#include "engine/model_shapes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/error.h"
#include "engine/synthetic_checkpoint.h"

namespace antiphon::engine {
namespace {

// Where Kyutai's own config.json differs from shape to shape; the rest is common.
struct Dimensions {
  const char* name;
  int dim, heads, layers, context;
  int depth_dim, depth_heads, depth_layers, depth_hidden;
  int dep_q, card, text_card;
};

// Rows 3 and 4 are the published models (tests/golden/names); `pico` is models/embedded.
constexpr Dimensions kDimensions[] = {
    {"pico", 256, 4, 6, 125, 128, 4, 2, 528, 8, 512, 480},
    {"mid", 1024, 16, 16, 3000, 512, 8, 6, 2112, 8, 2048, 32000},
    {"moshi-7b", 4096, 32, 32, 3000, 1024, 16, 6, 4224, 8, 2048, 32000},
    {"personaplex-7b", 4096, 32, 32, 3000, 1024, 16, 6, 4224, 16, 2048, 32000},
};

std::string ConfigText(const Dimensions& d) {
  const auto number = [](const char* key, int value) {
    return "\"" + std::string(key) + "\": " + std::to_string(value) + ", ";
  };
  return "{" + number("dim", d.dim) + number("num_heads", d.heads) +
         number("num_layers", d.layers) + number("context", d.context) +
         number("depformer_dim", d.depth_dim) + number("depformer_num_heads", d.depth_heads) +
         number("depformer_num_layers", d.depth_layers) +
         number("depformer_dim_feedforward", d.depth_hidden) + number("dep_q", d.dep_q) +
         number("card", d.card) + number("text_card", d.text_card) +
         R"("n_q": 16, "existing_text_padding_id": 3, "hidden_scale": 4.125, "causal": true,
            "layer_scale": null, "max_period": 10000, "gating": "silu", "norm": "rms_norm_f32",
            "positional_embedding": "rope", "depformer_causal": true,
            "depformer_layer_scale": null, "depformer_multi_linear": true, "depformer_context": 8,
            "depformer_max_period": 10000, "depformer_gating": "silu",
            "depformer_pos_emb": "none", "depformer_weights_per_step": true,
            "delays": [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1]})";
}

// The published codec (tests/golden/names/mimi.json); MimiConfig's own defaults are its
// convolutions and quantizers.
MimiConfig PublishedMimi() {
  MimiConfig config;
  config.transformer.dim = 512;
  config.transformer.heads = 8;
  config.transformer.layers = 8;
  config.transformer.context = 250;
  config.transformer.hidden = 2048;
  config.transformer.norm = NormKind::kLayerNorm;
  config.transformer.gating = Gating::kNone;
  config.transformer.layer_scale = true;
  return config;
}

// The codec of models/embedded.
MimiConfig PicoMimi() {
  MimiConfig config = PublishedMimi();
  config.dimension = 192;
  config.n_filters = 16;
  config.codebooks = 8;
  config.bins = 512;
  config.codebook_dim = 96;
  config.transformer.dim = 192;
  config.transformer.heads = 4;
  config.transformer.layers = 2;
  config.transformer.context = 32;
  config.transformer.hidden = 768;
  return config;
}

ModelShape FromFolder(const std::string& folder) {
  const Checkpoint checkpoint = Checkpoint::Open(folder);
  ModelShape shape;
  shape.name = folder;
  if (checkpoint.lm_config() != nullptr) shape.lm = *checkpoint.lm_config();
  if (checkpoint.mimi_config() != nullptr) shape.mimi = *checkpoint.mimi_config();
  return shape;
}

ModelShape FromConfig(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ModelShape shape;
  shape.name = path;
  shape.lm = ParseLmConfig(text, path);
  shape.mimi = PublishedMimi();
  return shape;
}

}  // namespace

const std::vector<std::string>& ModelShapeNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"mimi"};
    for (const Dimensions& d : kDimensions) all.insert(all.end() - 1, d.name);
    return all;
  }();
  return names;
}

ModelShape FindModelShape(const std::string& name_or_path) {
  ModelShape shape;
  shape.name = name_or_path;
  if (name_or_path == "mimi") {
    shape.mimi = PublishedMimi();
    return shape;
  }
  for (const Dimensions& d : kDimensions) {
    if (name_or_path != d.name) continue;
    shape.lm = ParseLmConfig(ConfigText(d), d.name);
    shape.mimi = name_or_path == "pico" ? PicoMimi() : PublishedMimi();
    return shape;
  }
  if (std::filesystem::is_directory(name_or_path)) return FromFolder(name_or_path);
  if (std::filesystem::is_regular_file(name_or_path)) return FromConfig(name_or_path);
  std::string known;
  for (const std::string& name : ModelShapeNames()) known += name + ", ";
  throw InputError("shape: expected " + known + "a config.json or a checkpoint folder, found \"" +
                   name_or_path + "\"");
}

Checkpoint MakeSyntheticCheckpoint(const ModelShape& shape) {
  return MakeSyntheticCheckpoint(shape.name, shape.lm ? &*shape.lm : nullptr,
                                 shape.mimi ? &*shape.mimi : nullptr);
}

}  // namespace antiphon::engine
