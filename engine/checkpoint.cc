#include "engine/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "engine/config_reader.h"
#include "engine/error.h"

namespace antiphon::engine {
namespace fs = std::filesystem;

namespace {

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A folder with its config.json and the rules by which published folders name their files.
class Folder {
 public:
  Folder(fs::path path, std::string weights)
      : path_(std::move(path)), weights_(std::move(weights)) {
    if (!fs::is_directory(path_)) {
      throw InputError(path_.string() + ": expected a checkpoint folder");
    }
    config_path_ = (path_ / "config.json").string();
    config_text_ = fs::exists(config_path_) ? ReadText(config_path_) : "{}";
  }

  const std::string& config_path() const { return config_path_; }
  const std::string& config_text() const { return config_text_; }
  ConfigReader config() const { return {config_text_, config_path_}; }

  // Weights of the LM, or of the codec in a folder of the codec alone.
  std::shared_ptr<SafeTensors> OpenMain() const {
    if (!weights_.empty()) return Open(weights_);
    const ConfigReader reader = config();
    const std::string named = reader.String("moshi_name", "");
    if (!named.empty()) return Open(named);
    for (const char* name : {"model.safetensors", "test_lm_model.safetensors"}) {
      if (fs::exists(path_ / name)) return Open(name);
    }
    const fs::path index = path_ / "model.safetensors.index.json";
    if (fs::exists(index)) {
      return std::make_shared<SafeTensors>(SafeTensors::OpenIndex(index.string()));
    }
    return nullptr;
  }

  std::shared_ptr<SafeTensors> OpenMimi() const {
    const std::string name = Find(config().String("mimi_name", ""), [](const std::string& file) {
      return file == "mimi.safetensors" ||
             (file.starts_with("tokenizer-") && file.ends_with(".safetensors"));
    });
    return name.empty() ? nullptr : Open(name);
  }

  std::string MimiConfigFile() const {
    return Find(config().String("mimi_config_name", ""),
                [](const std::string& file) { return file == "mimi_config.json"; });
  }

  std::string TokenizerFile() const {
    return Find(config().String("tokenizer_name", ""), [](const std::string& file) {
      return file.starts_with("tokenizer") && file.ends_with(".model");
    });
  }

  std::string PathOf(const std::string& name) const { return (path_ / name).string(); }

 private:
  // The file that the configuration names, else the first that matches, else "".
  template <typename Match>
  std::string Find(const std::string& named, Match match) const {
    if (!named.empty()) {
      CheckName(named);
      return fs::exists(path_ / named) ? named : "";
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (match(entry.path().filename().string())) found.push_back(entry.path().filename());
    }
    return found.empty() ? "" : *std::min_element(found.begin(), found.end());
  }

  void CheckName(const std::string& name) const {
    if (name.find('/') != std::string::npos || name == "..") {
      throw InputError(config_path_ + ": expected a file name in the folder, found \"" + name +
                       "\"");
    }
  }

  std::shared_ptr<SafeTensors> Open(const std::string& name) const {
    CheckName(name);
    const fs::path path = path_ / name;
    if (!fs::exists(path) && fs::exists(path.string() + ".index.json")) {
      return std::make_shared<SafeTensors>(SafeTensors::OpenIndex(path.string() + ".index.json"));
    }
    return std::make_shared<SafeTensors>(SafeTensors::Open(path.string()));
  }

  fs::path path_;
  std::string weights_;
  std::string config_path_;
  std::string config_text_;
};

// Names under which a file may hold a tensor that the published naming calls `name`.
std::vector<std::string> Synonyms(const std::string& name) {
  std::vector<std::string> names = {name};
  const auto swap = [&](const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) {
      names.push_back(name.substr(0, at) + to + name.substr(at + from.size()));
    }
  };
  swap("self_attn.in_proj_weight", "self_attn.in_proj.weight");
  swap("self_attn.in_proj_weight", "self_attn.in_projs.0.weight");
  swap("self_attn.out_proj.weight", "self_attn.out_projs.0.weight");
  swap("_codebook.embedding_sum", "_codebook.embed_sum");
  swap("_codebook.embedding_sum", "_codebook.embed_avg");
  swap("_codebook.cluster_usage", "_codebook.cluster_size");
  return names;
}

// Every tensor of the configuration is there, with its shape where the naming is the published one.
void CheckTensors(const TensorShapes& expected, const SafeTensors& file) {
  for (const auto& [name, shape] : expected) {
    // Flags and the unused projection of two-stream embeddings need not be there.
    if (name.ends_with("._initialized")) continue;
    if (name == "depformer_text_emb.low_rank.weight" &&
        expected.contains("depformer_text_emb.out1.weight")) {
      continue;
    }
    if (file.Has(name)) {
      file.Get(name, shape);
      continue;
    }
    const std::vector<std::string> names = Synonyms(name);
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& other) { return file.Has(other); })) {
      file.Get(name);  // throws, naming the file and the tensor
    }
  }
}

void RefuseQuantized(const SafeTensors& file) {
  for (const auto& [name, view] : file.tensors()) {
    if (name.ends_with("weight_scb")) {
      throw InputError(file.path() + ": tensor " + name +
                       ": an int8 checkpoint; expected the "
                       "F32, F16 or BF16 one, which is published beside it");
    }
    if (name.ends_with("lora_A.weight")) {
      throw InputError(file.path() + ": tensor " + name +
                       ": LoRA weights; merge them into the "
                       "model first");
    }
  }
}

bool IsLm(const SafeTensors& file) { return file.Has("text_emb.weight"); }

}  // namespace

Checkpoint Checkpoint::FromParts(const std::string& name, const LmConfig* lm_config,
                                 std::shared_ptr<SafeTensors> lm, const MimiConfig* mimi_config,
                                 std::shared_ptr<SafeTensors> mimi) {
  Checkpoint checkpoint;
  checkpoint.folder_ = name;
  if (lm_config != nullptr && lm != nullptr) {
    checkpoint.lm_config_ = *lm_config;
    checkpoint.lm_ = std::move(lm);
  }
  if (mimi_config != nullptr && mimi != nullptr) {
    checkpoint.mimi_config_ = *mimi_config;
    checkpoint.mimi_ = std::move(mimi);
  }
  return checkpoint;
}

Checkpoint Checkpoint::Open(const std::string& folder_path, const std::string& weights) {
  const Folder folder(folder_path, weights);
  const bool codec_config = folder.config().Has("seanet");
  Checkpoint out;
  out.folder_ = folder_path;
  std::shared_ptr<SafeTensors> main = folder.OpenMain();
  if (main != nullptr && codec_config) {
    out.mimi_ = std::move(main);
  } else if (main != nullptr && !IsLm(*main) && main->Has("encoder.model.0.conv.conv.weight")) {
    out.mimi_ = std::move(main);
  } else {
    out.lm_ = std::move(main);
  }
  if (out.lm_ != nullptr) {
    RefuseQuantized(*out.lm_);
    const TensorShapes shapes = ShapesOf(*out.lm_);
    out.lm_config_inferred_ = !folder.config().Has("dim");
    out.lm_config_ = out.lm_config_inferred_
                         ? InferLmConfig(shapes, out.lm_->path())
                         : ParseLmConfig(folder.config_text(), folder.config_path());
    AdaptToTensors(shapes, &*out.lm_config_);
    CheckTensors(ExpectedLmTensors(*out.lm_config_), *out.lm_);
  }
  if (out.mimi_ == nullptr) out.mimi_ = folder.OpenMimi();
  if (out.mimi_ != nullptr) {
    const std::string mimi_config = folder.MimiConfigFile();
    if (codec_config) {
      out.mimi_config_ = ParseMimiConfig(folder.config_text(), folder.config_path());
    } else if (!mimi_config.empty()) {
      const std::string path = folder.PathOf(mimi_config);
      out.mimi_config_ = ParseMimiConfig(ReadText(path), path);
    } else {
      out.mimi_config_ = InferMimiConfig(ShapesOf(*out.mimi_), out.mimi_->path());
    }
    CheckTensors(ExpectedMimiTensors(*out.mimi_config_), *out.mimi_);
  }
  const std::string tokenizer = folder.TokenizerFile();
  if (!tokenizer.empty()) out.tokenizer_ = std::make_shared<Tokenizer>(folder.PathOf(tokenizer));
  // Fewer pieces are well: ids without one show nothing. More would index past the embeddings.
  if (out.tokenizer_ != nullptr && out.lm_config_ &&
      out.tokenizer_->size() > out.lm_config_->text_card) {
    throw InputError(folder.PathOf(tokenizer) + ": expected at most " +
                     std::to_string(out.lm_config_->text_card) +
                     " pieces, the language model's text_card, found " +
                     std::to_string(out.tokenizer_->size()) +
                     ": tokenizer and model do not belong together");
  }

  if (out.lm_ == nullptr) out.missing_.emplace_back("language model weights (model.safetensors)");
  if (out.mimi_ == nullptr) {
    out.missing_.emplace_back(
        "Mimi codec weights (mimi.safetensors or tokenizer-*-checkpoint*.safetensors)");
  }
  if (out.tokenizer_ == nullptr) {
    out.missing_.emplace_back("sentencepiece tokenizer (tokenizer*.model)");
  }
  if (out.lm_ == nullptr && out.mimi_ == nullptr) {
    throw InputError(folder_path +
                     ": no model found: expected model.safetensors, "
                     "model.safetensors.index.json or mimi.safetensors");
  }
  if (out.lm_config_ && out.mimi_config_) {
    const int bins = out.mimi_config_->bins, card = out.lm_config_->card;
    if (bins != card) {
      throw InputError(out.mimi_->path() + ": codebooks of " + std::to_string(bins) +
                       " entries, but the language model has card " + std::to_string(card) +
                       ": codec and model do not belong together");
    }
    if (out.mimi_codebooks() > out.mimi_config_->codebooks) {
      throw InputError(out.mimi_->path() + ": " + std::to_string(out.mimi_config_->codebooks) +
                       " codebooks, but the language model needs " +
                       std::to_string(out.mimi_codebooks()));
    }
  }
  return out;
}

int Checkpoint::mimi_codebooks() const {
  if (!lm_config_) return mimi_config_ ? mimi_config_->codebooks : 0;
  return std::max(lm_config_->agent_codes(), lm_config_->user_codes());
}

TensorView AttentionProjection(const SafeTensors& tensors, const std::string& layer_prefix,
                               const std::string& what, int set, int sets, int64_t rows,
                               int64_t cols) {
  const std::string base = layer_prefix + ".self_attn." + what;
  const std::string per_set = base + "s." + std::to_string(set) + ".weight";
  if (tensors.Has(per_set)) return tensors.Get(per_set, {rows, cols});
  std::string name = base + (what == "in_proj" ? "_weight" : ".weight");
  if (!tensors.Has(name) && tensors.Has(base + ".weight")) name = base + ".weight";
  TensorView view = tensors.Get(name, {sets * rows, cols});
  view.data += set * rows * cols * static_cast<int64_t>(DtypeBytes(view.dtype));
  view.shape = {rows, cols};
  return view;
}

void ReadCentroids(const SafeTensors& tensors, const std::string& prefix, int bins, int dim,
                   int64_t begin, int64_t count, float* out) {
  const std::string book = prefix + "._codebook.";
  const auto any_of = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (tensors.Has(book + name)) return book + name;
    }
    return book + *names.begin();
  };
  const TensorView& sums =
      tensors.Get(any_of({"embedding_sum", "embed_sum", "embed_avg"}), {bins, dim});
  const TensorView& usage = tensors.Get(any_of({"cluster_usage", "cluster_size"}), {bins});
  ReadFloats(sums, begin * dim, count * dim, out);
  for (int64_t row = 0; row < count; ++row) {
    float uses = 0.0F;
    ReadFloats(usage, begin + row, 1, &uses);
    for (int64_t i = 0; i < dim; ++i) out[row * dim + i] /= std::max(uses, 1e-5F);
  }
}

std::string FindBuiltInModel(const std::string& name) {
  std::vector<fs::path> places;
  if (const char* folder = std::getenv("ANTIPHON_MODELS")) places.emplace_back(folder);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    places.push_back(program.parent_path() / ".." / "share" / "antiphon" / "models");
    // A build tree lies in <source>/build/<preset>, its tests one or two folders deeper.
    fs::path folder = program.parent_path();
    for (int up = 0; up < 5 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
      places.push_back(folder / "models");
    }
  }
  std::string tried;
  for (const fs::path& place : places) {
    const fs::path folder = place / name;
    if (fs::exists(folder / "config.json")) return folder.lexically_normal().string();
    tried += (tried.empty() ? "" : ", ") + folder.lexically_normal().string();
  }
  throw InputError("built-in model " + name + " not found; looked in " + tried +
                   " (ANTIPHON_MODELS names another folder)");
}

}  // namespace antiphon::engine
