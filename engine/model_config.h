// What a model is: every number that shapes it, read from a Kyutai-style config.json or inferred
// from the names and shapes of its tensors. Key names are those of the published files; see
// tests/golden/ARCHITECTURE.md for what each means.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/safetensors.h"

namespace antiphon::engine {

enum class NormKind : uint8_t { kRmsNorm, kRmsNormF32, kLayerNorm, kLayerNormF32 };
enum class Gating : uint8_t { kNone, kSilu, kGelu, kRelu, kSigmoid, kTanh, kIdentity };
enum class PositionKind : uint8_t { kNone, kRope, kRopeConcat, kSin };
enum class Family : uint8_t { kMoshi, kPersonaPlex, kHibiki, kTts };

// eps of a norm kind (tests/golden/ARCHITECTURE.md 1.1).
float NormEps(NormKind kind);
bool IsLayerNorm(NormKind kind);

// One transformer stack.
struct TransformerConfig {
  int dim = 0;
  int heads = 0;
  int kv_repeat = 1;
  int layers = 0;
  int context = 0;  // positions; 0: unlimited (the depth transformer)
  float max_period = 10000.0F;
  NormKind norm = NormKind::kRmsNormF32;
  Gating gating = Gating::kSilu;
  PositionKind position = PositionKind::kRope;
  int hidden = 0;  // FFN inner width: rows of linear1, or half the rows of gating.linear_in
  // Depth transformer with per-step hidden widths: one per weight set; empty: `hidden` for all.
  std::vector<int> hidden_per_set;
  bool layer_scale = false;
  bool cross_attention = false;
  int head_dim() const { return dim / heads; }
};

// A conditioner (section 3.7): tensors under condition_provider.conditioners.<name>.
struct Conditioner {
  std::string name;
  bool is_lut = false;  // look-up table of n_bins + 1 rows; otherwise a given tensor
  int bins = 0;
  int dim = 0;
  bool sum = false;  // added to every input embedding
};

struct LmConfig {
  Family family = Family::kMoshi;
  int n_q = 0;
  int dep_q = 0;
  int card = 0;
  int text_card = 0;
  int text_card_out = 0;  // rows of text_linear; = text_card unless given
  int text_padding_id = 3;
  std::vector<int> delays;  // [n_q + 1], stream 0 is text
  TransformerConfig temporal;
  TransformerConfig depth;  // dim 0 where dep_q is 0
  bool depth_multi_linear = false;
  bool depth_weights_per_step = false;
  std::vector<int> depth_schedule;  // [dep_q]: weight set of each step (identity where not given)
  int depth_weight_sets = 0;
  // Codebooks whose depth tensors (depformer_emb, linears, depformer_norms) the file holds; = dep_q
  // unless a PersonaPlex file has one speaker's only, which then serves both (section 4).
  int depth_codebooks = 0;
  // Index of the codebook tensors that depth step `step` uses.
  int depth_codebook(int step) const { return step % depth_codebooks; }
  int depth_low_rank = 0;  // 0: none
  bool has_depth_norm = false;
  NormKind depth_norm = NormKind::kLayerNorm;
  bool demux_second_stream = false;
  int extra_heads = 0;
  int extra_heads_dim = 0;
  std::vector<Conditioner> conditioners;
  // Defaults of sampling (lm_gen_config).
  float temp_audio = 0.8F;
  float temp_text = 0.7F;
  int top_k_audio = 250;
  int top_k_text = 25;

  int streams() const { return n_q + 1; }
  int max_delay() const;
  // Codebooks per speaker: agent codes that Mimi decodes, and the caller's codes that come in.
  int agent_codes() const;  // PersonaPlex: n_q / 2; otherwise dep_q
  int user_codes() const;   // PersonaPlex: n_q / 2; otherwise n_q - dep_q
};

struct MimiConfig {
  int sample_rate_hz = 24000;
  double frame_rate_hz = 12.5;
  int dimension = 512;
  int n_filters = 64;
  int n_residual_layers = 1;
  int compress = 2;
  int dilation_base = 2;
  int kernel_size = 7;
  int residual_kernel_size = 3;
  int last_kernel_size = 3;
  std::vector<int> ratios = {8, 6, 5, 4};
  bool true_skip = true;
  TransformerConfig transformer;  // encoder and decoder alike
  int codebooks = 32;             // in the file
  int bins = 2048;
  int codebook_dim = 256;

  int hop() const;              // product of ratios: 960
  int resample_stride() const;  // 25 -> 12.5 Hz: 2
  int frame_samples() const { return hop() * resample_stride(); }
};

// Parses a config.json text (`origin` names it in errors). Absent keys take the reference's
// defaults. Throws InputError naming the key, what was expected and what was found.
LmConfig ParseLmConfig(const std::string& json_text, const std::string& origin);
MimiConfig ParseMimiConfig(const std::string& json_text, const std::string& origin);

// Infers the configuration from tensor names and shapes, for folders whose config is absent or `{}`
// (as published for PersonaPlex and Moshi). What shapes cannot tell (heads, context, delays, norm
// eps) takes the published models' values, heads chosen so that a head has 128 (temporal) or 64
// (depth, codec) dimensions. Throws InputError where the tensors are no such model.
using TensorShapes = std::map<std::string, std::vector<int64_t>>;
LmConfig InferLmConfig(const TensorShapes& tensors, const std::string& origin);
MimiConfig InferMimiConfig(const TensorShapes& tensors, const std::string& origin);
// Shapes of an open file, for the two above.
TensorShapes ShapesOf(const SafeTensors& tensors);

// Corrects what the file alone decides: PersonaPlex files with one speaker's depth weights only.
void AdaptToTensors(const TensorShapes& tensors, LmConfig* config);

// Every tensor a model of this configuration has, in the published (packed) naming, with its shape:
// the loader checks against it and `names` tests compare it with the full-size manifests.
TensorShapes ExpectedLmTensors(const LmConfig& config);
TensorShapes ExpectedMimiTensors(const MimiConfig& config);

}  // namespace antiphon::engine
