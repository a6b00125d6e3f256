// Configurations: wrong ones, inferred ones, and the tensors they imply against the manifests of
// the full-size models and the golden files.
#include "engine/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/error.h"
#include "tests/engine/model_folder.h"

namespace antiphon::engine {
namespace {

using nlohmann::json;

json Manifest(const std::string& name) {
  return json::parse(ReadFile(SourcePath("tests/golden/names/" + name + ".json")));
}

TensorShapes ShapesIn(const json& manifest) {
  TensorShapes shapes;
  for (const auto& [name, tensor] : manifest["tensors"].items()) {
    shapes[name] = tensor["shape"].get<std::vector<int64_t>>();
  }
  return shapes;
}

TensorShapes Without(TensorShapes shapes, const std::string& prefix) {
  std::erase_if(shapes, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  return shapes;
}

constexpr const char* kLms[] = {"moshi_7b", "personaplex_7b", "moshi_dev_2b", "tts_1.6b_assumed"};

TEST(ModelConfig, FullSizeConfigurationsImplyTheirTensors) {
  for (const char* name : kLms) {
    const json manifest = Manifest(name);
    EXPECT_EQ(ExpectedLmTensors(ParseLmConfig(manifest["config"].dump(), name)), ShapesIn(manifest))
        << name;
  }
  const json mimi = Manifest("mimi");
  EXPECT_EQ(ExpectedMimiTensors(ParseMimiConfig(mimi["config"].dump(), "mimi")), ShapesIn(mimi));
}

TEST(ModelConfig, ShapesOfFullSizeModelsGiveTheirConfiguration) {
  for (const char* name : kLms) {
    const TensorShapes shapes = ShapesIn(Manifest(name));
    const LmConfig lm = InferLmConfig(shapes, name);
    // Conditioners need a configuration to be used; shapes do not tell how they are combined.
    EXPECT_EQ(ExpectedLmTensors(lm), Without(shapes, "condition_provider.")) << name;
    const LmConfig given = ParseLmConfig(Manifest(name)["config"].dump(), name);
    EXPECT_EQ(lm.temporal.heads, given.temporal.heads) << name;
    EXPECT_EQ(lm.depth.heads, given.depth.heads) << name;
    EXPECT_EQ(lm.temporal.norm, given.temporal.norm) << name;
    EXPECT_EQ(lm.depth.position, given.depth.position) << name;
    EXPECT_EQ(lm.depth_weight_sets, given.depth_weight_sets) << name;
  }
  const TensorShapes mimi = ShapesIn(Manifest("mimi"));
  const MimiConfig config = InferMimiConfig(mimi, "mimi");
  EXPECT_EQ(ExpectedMimiTensors(config), mimi);
  EXPECT_EQ(config.ratios, (std::vector<int>{8, 6, 5, 4}));
  EXPECT_EQ(config.frame_rate_hz, 12.5);
  EXPECT_EQ(config.transformer.heads, 8);
}

TEST(ModelConfig, FamiliesAreTold) {
  const auto inferred = [](const char* name) {
    return InferLmConfig(ShapesIn(Manifest(name)), name);
  };
  EXPECT_EQ(inferred("moshi_7b").family, Family::kMoshi);
  EXPECT_EQ(inferred("personaplex_7b").family, Family::kPersonaPlex);
  EXPECT_EQ(inferred("tts_1.6b_assumed").family, Family::kTts);
  const LmConfig moshi = inferred("moshi_7b");
  EXPECT_EQ(moshi.temporal.context, 3000);
  EXPECT_THAT(moshi.delays,
              testing::ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1));
  // Without model_type the same configuration with dep_q = n_q is PersonaPlex's.
  const json config = Manifest("personaplex_7b")["config"];
  EXPECT_EQ(ParseLmConfig(config.dump(), "c").family, Family::kPersonaPlex);
}

TEST(ModelConfig, PersonaPlexWithOneSpeakersDepthWeightsServesBoth) {
  LmConfig config = ParseLmConfig(Manifest("personaplex_7b")["config"].dump(), "c");
  const TensorShapes full = ExpectedLmTensors(config);
  AdaptToTensors(full, &config);
  EXPECT_EQ(config.depth_weight_sets, 16);
  TensorShapes half = full;
  half["depformer.layers.0.self_attn.in_proj_weight"] = {8 * 3 * 1024, 1024};
  AdaptToTensors(half, &config);
  EXPECT_EQ(config.depth_weight_sets, 8);
  EXPECT_EQ(config.depth_codebooks, 8);
  EXPECT_THAT(config.depth_schedule,
              testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(config.depth_codebook(11), 3);
}

TEST(ModelConfig, OptionsAddTheirTensors) {
  json config = Manifest("moshi_7b")["config"];
  config["kv_repeat"] = 4;
  config["extra_heads_num_heads"] = 2;
  config["text_card_out"] = 5;
  config["depformer_norm"] = "rms_norm";
  const TensorShapes shapes = ExpectedLmTensors(ParseLmConfig(config.dump(), "c"));
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shapes.at("transformer.layers.0.self_attn.in_proj_weight"), (Shape{6144, 4096}));
  EXPECT_EQ(shapes.at("extra_heads.1.weight"), (Shape{6, 4096}));
  EXPECT_EQ(shapes.at("text_linear.weight"), (Shape{5, 4096}));
  EXPECT_EQ(shapes.at("depformer_norms.7.alpha"), (Shape{1, 1, 1024}));
}

TEST(ModelConfig, GoldenFilesHoldExactlyTheirTensors) {
  for (const char* name : {"moshi-tiny", "personaplex-tiny", "schedule-tiny", "batch-tiny"}) {
    const Checkpoint model = Checkpoint::Open(SourcePath(std::string("tests/golden/") + name));
    EXPECT_EQ(ExpectedLmTensors(*model.lm_config()), ShapesOf(*model.lm())) << name;
  }
  const Checkpoint codec = Checkpoint::Open(SourcePath("tests/golden/mimi-tiny"));
  EXPECT_EQ(codec.lm(), nullptr);
  EXPECT_EQ(ExpectedMimiTensors(*codec.mimi_config()), ShapesOf(*codec.mimi()));
}

TEST(ModelConfig, ShapesOfTheTinyModelsGiveAllButHeads) {
  for (const char* name : {"moshi-tiny", "personaplex-tiny"}) {
    const Checkpoint model = Checkpoint::Open(SourcePath(std::string("tests/golden/") + name));
    const TensorShapes shapes = ShapesOf(*model.lm());
    const LmConfig lm = InferLmConfig(shapes, name);
    EXPECT_EQ(ExpectedLmTensors(lm), shapes) << name;
    EXPECT_EQ(lm.family, model.lm_config()->family) << name;
    EXPECT_EQ(lm.delays, model.lm_config()->delays) << name;
  }
}

TEST(ModelConfig, WrongValuesNameKeyExpectedAndFound) {
  const struct {
    const char* key;
    json value;
    const char* message;
  } cases[] = {
      {"dim", "32", "c: dim: expected an integer from 2 to 131072, found \"32\""},
      {"dim", 32.5, "c: dim: expected an integer from 2 to 131072, found 32.5"},
      {"dim", 1e300, "c: dim: expected an integer from 2 to 131072, found 1e+300"},
      {"dim", -32, "c: dim: expected an integer from 2 to 131072, found -32"},
      {"n_q", nullptr, "c: n_q is missing"},
      {"dep_q", 17, "c: dep_q: expected an integer from 0 to 16, found 17"},
      {"num_heads", 5, "c: num_heads: expected a divisor of 4096 with even head size, found 5"},
      {"kv_repeat", 3, "c: kv_repeat: expected a divisor of 32, found 3"},
      {"delays", {0, 1}, "c: delays: expected n_q + 1 = 17 entries, found [0,1]"},
      {"delays", "none", "c: delays: expected a list of integers from 0 to 1024, found \"none\""},
      {"norm", "batch",
       "c: norm: expected one of rms_norm, rms_norm_f32, layer_norm, "
       "layer_norm_f32, found \"batch\""},
      {"hidden_scale", "4", "c: hidden_scale: expected a number from 0.01 to 64, found \"4\""},
      {"depformer_multi_linear", 1, "c: depformer_multi_linear: expected true or false, found 1"},
      {"depformer_weights_per_step_schedule",
       {0, 1},
       "c: depformer_weights_per_step_schedule: expected dep_q = 8 entries, found [0,1]"},
      {"depformer_dim_feedforward",
       {64, 64},
       "c: depformer_dim_feedforward: expected 8 sizes, one per weight set, found [64,64]"},
  };
  const json good = Manifest("moshi_7b")["config"];
  for (const auto& wrong : cases) {
    json config = good;
    config[wrong.key] = wrong.value;
    try {
      ParseLmConfig(config.dump(), "c");
      ADD_FAILURE() << wrong.key << " " << wrong.value << " was accepted";
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(), wrong.message);
    }
  }
}

TEST(ModelConfig, ABadCodecConfigurationIsRefused) {
  json config = Manifest("mimi")["config"];
  config["seanet"]["ratios"] = std::vector<int>(40, 1024);
  EXPECT_THROW(ParseMimiConfig(config.dump(), "c"), InputError);
  config["seanet"]["ratios"] = {7};
  EXPECT_THROW(ParseMimiConfig(config.dump(), "c"), InputError);
  EXPECT_THROW(ParseMimiConfig("{}", "c"), InputError);
}

}  // namespace
}  // namespace antiphon::engine
