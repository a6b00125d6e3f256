// Checkpoint folders: those that open, and a corpus of broken ones each with its sentence.
#include "engine/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/error.h"
#include "tests/engine/model_folder.h"

namespace antiphon::engine {
namespace {

namespace fs = std::filesystem;

// A copy of the tiny Moshi that a case then breaks.
void FillTiny(const TempFolder& folder) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(SourcePath(std::string("tests/golden/moshi-tiny/") + name), folder.path() / name);
  }
}

// The error that opening gives, with "DIR" for the folder's path; "" if it opens.
std::string ErrorOf(const TempFolder& folder) {
  try {
    Checkpoint::Open(folder.str());
  } catch (const InputError& error) {
    std::string text = error.what();
    for (size_t at; (at = text.find(folder.str())) != std::string::npos;) {
      text.replace(at, folder.str().size(), "DIR");
    }
    return text;
  }
  return "";
}

TEST(Checkpoint, EveryBrokenFolderHasItsSentence) {
  const struct {
    const char* what;
    std::function<void(const TempFolder&)> damage;
    const char* message;
  } cases[] = {
      {"whole", [](const TempFolder&) {}, ""},
      {"empty folder",
       [](const TempFolder& f) {
         fs::remove(f.path() / "config.json");
         fs::remove(f.path() / "model.safetensors");
       },
       "DIR: no model found: expected model.safetensors, model.safetensors.index.json or "
       "mimi.safetensors"},
      {"config not JSON", [](const TempFolder& f) { f.Write("config.json", "dim = 32"); },
       "DIR/config.json: expected a JSON object"},
      {"config a list", [](const TempFolder& f) { f.Write("config.json", "[]"); },
       "DIR/config.json: expected a JSON object"},
      {"config nested without end",
       [](const TempFolder& f) {
         f.Write("config.json",
                 R"({"dim":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
       },
       "DIR/config.json: expected a JSON object"},
      {"name out of the folder",
       [](const TempFolder& f) {
         f.Edit("config.json", "\"model.safetensors\"", "\"../model.safetensors\"");
       },
       "DIR/config.json: expected a file name in the folder, found \"../model.safetensors\""},
      {"named weights absent",
       [](const TempFolder& f) {
         f.Edit("config.json", "\"model.safetensors\"", "\"other.safetensors\"");
       },
       "DIR/other.safetensors: cannot be opened: No such file or directory"},
      {"weights truncated",
       [](const TempFolder& f) { fs::resize_file(f.path() / "model.safetensors", 4000); },
       "DIR/model.safetensors: truncated: the header needs 9200 bytes, the file has 3992 after "
       "its length"},
      {"weights a Git-LFS pointer",
       [](const TempFolder& f) {
         f.Write("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
       },
       "DIR/model.safetensors: this is a Git-LFS pointer, not the file itself; fetch it with "
       "`git lfs pull` or download it from the hub"},
      {"tensor missing",
       [](const TempFolder& f) { f.Edit("model.safetensors", "out_norm.alpha", "out_norm.alphx"); },
       "DIR/model.safetensors: missing tensor out_norm.alpha"},
      {"wrong shape",
       [](const TempFolder& f) { f.Edit("config.json", "\"text_card\": 48", "\"text_card\": 49"); },
       "DIR/model.safetensors: tensor depformer_text_emb.weight: expected shape [50, 16], found "
       "[49, 16]"},
      {"odd dtype", [](const TempFolder& f) { f.Edit("model.safetensors", "\"F32\"", "\"F8E\""); },
       "unknown dtype \"F8E\", expected one of F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL"},
      {"integer weights",
       [](const TempFolder& f) { f.Edit("model.safetensors", "\"F32\"", "\"I32\""); },
       "expected a floating dtype, found I32"},
      {"int8 checkpoint",
       [](const TempFolder& f) {
         f.Edit("model.safetensors", "out_norm.alpha", "a.weight_scb12");
         f.Edit("model.safetensors", "a.weight_scb12\"", "abc.weight_scb\"");
       },
       "DIR/model.safetensors: tensor abc.weight_scb: an int8 checkpoint; expected the F32, F16 or "
       "BF16 one, which is published beside it"},
      {"not this family",
       [](const TempFolder& f) {
         fs::remove(f.path() / "config.json");
         f.Write("model.safetensors",
                 Image(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
       },
       "DIR/model.safetensors: not a model of this family: no tensor "
       "transformer.layers.0.self_attn.in_proj_weight to infer its configuration from"},
      {"codec of another model",
       [](const TempFolder& f) {
         f.Link("models/embedded/mimi.safetensors", "mimi.safetensors");
         f.Link("models/embedded/mimi_config.json", "mimi_config.json");
       },
       "DIR/mimi.safetensors: codebooks of 512 entries, but the language model has card 32: codec "
       "and model do not belong together"},
      {"shard missing",
       [](const TempFolder& f) {
         f.Edit("config.json", "moshi_name", "other_name");
         fs::rename(f.path() / "model.safetensors", f.path() / "part.safetensors");
         f.Write("model.safetensors.index.json",
                 R"({"weight_map":{"text_emb.weight":"model-00001-of-00002.safetensors"}})");
       },
       "DIR/model-00001-of-00002.safetensors: cannot be opened: No such file or directory"},
  };
  for (const auto& broken : cases) {
    const TempFolder folder;
    FillTiny(folder);
    broken.damage(folder);
    const std::string message = ErrorOf(folder);
    // Cases that damage the first entry of the header leave out which tensor that is.
    if (std::string_view(broken.message).starts_with("DIR") || *broken.message == '\0') {
      EXPECT_EQ(message, broken.message) << broken.what;
    } else {
      EXPECT_TRUE(message.starts_with("DIR/model.safetensors: tensor ")) << message;
      EXPECT_TRUE(message.ends_with(broken.message)) << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << broken.what;
  }
}

TEST(Checkpoint, ABrokenTokenizerIsNamed) {
  const TempFolder folder;
  FillTiny(folder);
  folder.Write("tokenizer.model", "not a tokenizer");
  EXPECT_TRUE(ErrorOf(folder).starts_with("DIR/tokenizer.model: not a sentencepiece tokenizer: "));
}

TEST(Checkpoint, AMissingFolderIsNamed) {
  try {
    Checkpoint::Open("/nonexistent/model");
    ADD_FAILURE() << "opened";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "/nonexistent/model: expected a checkpoint folder");
  }
}

TEST(Checkpoint, TheEmbeddedModelIsWhole) {
  const Checkpoint model = Checkpoint::Open(FindBuiltInModel("embedded"));
  EXPECT_TRUE(model.missing().empty());
  EXPECT_EQ(model.mimi_codebooks(), 8);
  EXPECT_EQ(model.mimi_config()->frame_samples(), 1920);
  EXPECT_EQ(model.lm_config()->temp_text, 0.0F);
  EXPECT_NEAR(model.lm_config()->temp_audio, 0.6F, 1e-6F);
  EXPECT_EQ(model.tokenizer()->size(), model.lm_config()->text_card);
}

// Folders as published for PersonaPlex: an empty configuration and NVIDIA's file names.
TEST(Checkpoint, PublishedNamesAreFoundWithoutAConfiguration) {
  const TempFolder folder;
  folder.Write("config.json", "{}");
  folder.Link("tests/golden/personaplex-tiny/model.safetensors", "model.safetensors");
  folder.Link("tests/golden/mimi-tiny/model.safetensors",
              "tokenizer-e351c8d8-checkpoint125.safetensors");
  folder.Write("voices.tgz", "");
  const Checkpoint model = Checkpoint::Open(folder.str());
  ASSERT_EQ(model.missing().size(), 1U);
  EXPECT_TRUE(model.missing()[0].starts_with("sentencepiece tokenizer"));
  EXPECT_TRUE(model.lm_config_inferred());
  EXPECT_EQ(model.lm_config()->family, Family::kPersonaPlex);
  EXPECT_EQ(model.mimi_codebooks(), 8);
  EXPECT_EQ(model.mimi_config()->ratios, (std::vector<int>{8, 6, 5, 4}));
}

TEST(Checkpoint, EightDepthSetsWithoutAConfigurationAreMoshi) {
  const TempFolder folder;
  folder.Link("tests/golden/moshi-tiny/model.safetensors", "model.safetensors");
  const Checkpoint model = Checkpoint::Open(folder.str());
  EXPECT_TRUE(model.lm_config_inferred());
  EXPECT_EQ(model.lm_config()->family, Family::kMoshi);
  EXPECT_EQ(model.lm_config()->dep_q, 8);
  EXPECT_FALSE(Checkpoint::Open(SourcePath("tests/golden/moshi-tiny")).lm_config_inferred());
}

TEST(Checkpoint, ATokenizerLargerThanTheTextVocabularyIsRefused) {
  const TempFolder folder;
  FillTiny(folder);
  folder.Link("models/embedded/tokenizer.model", "tokenizer_spm_32k_3.model");
  EXPECT_EQ(ErrorOf(folder),
            "DIR/tokenizer_spm_32k_3.model: expected at most 48 pieces, the language model's "
            "text_card, found 480: tokenizer and model do not belong together");
}

TEST(Checkpoint, SaysWhatAFolderLacks) {
  const Checkpoint model = Checkpoint::Open(SourcePath("tests/golden/moshi-tiny"));
  ASSERT_EQ(model.missing().size(), 2U);
  EXPECT_TRUE(model.missing()[0].starts_with("Mimi codec weights"));
  EXPECT_TRUE(model.missing()[1].starts_with("sentencepiece tokenizer"));
}

// The per-step export names one tensor per weight set; both namings hold the same numbers.
TEST(Checkpoint, AttentionProjectionsAreTheSameUnderBothNamings) {
  const std::string folder = SourcePath("tests/golden/schedule-tiny");
  const SafeTensors packed = SafeTensors::Open(folder + "/model.safetensors");
  const SafeTensors per_set = SafeTensors::Open(folder + "/model_perstep.safetensors");
  for (int set = 0; set < 5; ++set) {
    std::vector<float> a(48 * 16), b(48 * 16);
    for (const auto& [file, out] : {std::pair{&packed, &a}, std::pair{&per_set, &b}}) {
      const TensorView view =
          AttentionProjection(*file, "depformer.layers.1", "in_proj", set, 5, 48, 16);
      ReadFloats(view, 0, view.elements(), out->data());
    }
    EXPECT_EQ(a, b) << set;
  }
  EXPECT_THROW(AttentionProjection(packed, "depformer.layers.1", "in_proj", 0, 5, 47, 16),
               InputError);
  EXPECT_THROW(AttentionProjection(packed, "depformer.layers.9", "in_proj", 0, 5, 48, 16),
               InputError);
}

TEST(Checkpoint, CentroidsAreSumsOverUsage) {
  std::string data;
  for (const float value : {2.0F, 4.0F, 3.0F, 0.0F, 2.0F, 0.0F}) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  for (const auto& [sum, usage] :
       {std::pair{"embedding_sum", "cluster_usage"}, std::pair{"embed_sum", "cluster_size"},
        std::pair{"embed_avg", "cluster_size"}}) {
    const std::string image =
        Image(std::string(R"({"q._codebook.)") + sum +
                  R"(":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"q._codebook.)" + usage +
                  R"(":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})",
              data);
    const SafeTensors file = SafeTensors::FromBytes(image, "m");
    std::vector<float> centroids(4);
    ReadCentroids(file, "q", 2, 2, 0, 2, centroids.data());
    EXPECT_EQ(centroids[0], 1.0F) << sum;
    EXPECT_EQ(centroids[1], 2.0F) << sum;
    EXPECT_FLOAT_EQ(centroids[2], 3.0F / 1e-5F) << sum;
    EXPECT_EQ(centroids[3], 0.0F) << sum;
  }
}

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer(SourcePath("models/embedded/tokenizer.model"));
  const std::string text = "hello, how are you";
  const std::vector<int32_t> ids = tokenizer.Encode(text);
  ASSERT_FALSE(ids.empty());
  EXPECT_EQ(tokenizer.Decode(ids), text);
  std::string pieces;
  for (const int32_t id : ids) pieces += tokenizer.Piece(id);
  EXPECT_EQ(pieces, " " + text);
  EXPECT_EQ(tokenizer.Piece(-1), "");
  EXPECT_EQ(tokenizer.Piece(tokenizer.size()), "");
  EXPECT_THROW(Tokenizer("/nonexistent.model"), InputError);
}

}  // namespace
}  // namespace antiphon::engine
