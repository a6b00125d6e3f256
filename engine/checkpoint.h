// A checkpoint folder, opened and checked: configurations, tensors and tokenizer of one model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "engine/safetensors.h"
#include "engine/tokenizer.h"

namespace antiphon::engine {

class Checkpoint {
 public:
  // Opens a folder laid out as Kyutai and NVIDIA publish them: config.json (optional or `{}`), LM
  // safetensors (`moshi_name`, `model.safetensors`, or sharded with an index), Mimi (`mimi_name`,
  // `tokenizer-*-checkpoint*.safetensors`, `mimi.safetensors`), its config (`mimi_config_name`, or
  // the built-in published one), sentencepiece (`tokenizer_name`, `tokenizer*.model`). Parts that
  // are absent are absent here (`lm()`, `mimi()`, `tokenizer()` null); what is present is checked
  // tensor by tensor, and a tokenizer has no more pieces than the LM has text tokens. A folder of
  // the codec alone (config.json with `seanet`) opens as such. Throws InputError. `weights` names
  // the LM's (or the lone codec's) file instead of the usual one.
  static Checkpoint Open(const std::string& folder, const std::string& weights = "");

  // Parts that are open already; a configuration without its tensors is absent.
  static Checkpoint FromParts(const std::string& name, const LmConfig* lm_config,
                              std::shared_ptr<SafeTensors> lm, const MimiConfig* mimi_config,
                              std::shared_ptr<SafeTensors> mimi);

  const std::string& folder() const { return folder_; }
  const LmConfig* lm_config() const { return lm_config_ ? &*lm_config_ : nullptr; }
  const MimiConfig* mimi_config() const { return mimi_config_ ? &*mimi_config_ : nullptr; }
  // No config.json said what the LM is: its tensors' names and shapes did.
  bool lm_config_inferred() const { return lm_config_inferred_; }
  // Non-null exactly where the configuration is.
  const SafeTensors* lm() const { return lm_.get(); }
  const SafeTensors* mimi() const { return mimi_.get(); }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // Codebooks of Mimi in use: max(dep_q, n_q - dep_q), 8 for PersonaPlex, all for a codec alone.
  int mimi_codebooks() const;
  // Files that a talking model needs and the folder lacks, in words ("Mimi codec weights", ...).
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  std::string folder_;
  std::optional<LmConfig> lm_config_;
  bool lm_config_inferred_ = false;
  std::optional<MimiConfig> mimi_config_;
  std::shared_ptr<SafeTensors> lm_;
  std::shared_ptr<SafeTensors> mimi_;
  std::shared_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> missing_;
};

// An attention projection [rows, cols] by meaning, whatever naming the file uses (section 1.4):
// packed
// (`self_attn.in_proj_weight` [sets * rows, cols]), one tensor per set
// (`self_attn.in_projs.{m}.weight`) or `in_proj.weight`. `layer_prefix`: "transformer.layers.0";
// `what`: "in_proj" or "out_proj"; `set`: which of `sets` weight sets. Throws InputError where none
// exists or the shape differs.
TensorView AttentionProjection(const SafeTensors& tensors, const std::string& layer_prefix,
                               const std::string& what, int set, int sets, int64_t rows,
                               int64_t cols);

// Centroids of a quantizer level, embedding_sum / max(cluster_usage, 1e-5) (section 2.4), under the
// current or the older names: rows [begin, begin + count) of [bins, dim]. `prefix`:
// "quantizer.rvq_first.vq.layers.0". Throws InputError.
void ReadCentroids(const SafeTensors& tensors, const std::string& prefix, int bins, int dim,
                   int64_t begin, int64_t count, float* out);

// Folder of a built-in model ("embedded"): beside the build tree or installed. Throws InputError.
std::string FindBuiltInModel(const std::string& name);

}  // namespace antiphon::engine
