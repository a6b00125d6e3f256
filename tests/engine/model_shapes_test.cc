// Named shapes against the published models, and models without files.
#include "engine/model_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/make_executor.h"
#include "engine/model.h"
#include "tests/engine/model_folder.h"

namespace antiphon::engine {
namespace {

LmConfig Published(const std::string& name) {
  const auto manifest =
      nlohmann::json::parse(ReadFile(SourcePath("tests/golden/names/" + name + ".json")));
  return ParseLmConfig(manifest["config"].dump(), name);
}

TEST(ModelShapes, NamedOnesAreThePublishedOnes) {
  EXPECT_EQ(ExpectedLmTensors(*FindModelShape("moshi-7b").lm),
            ExpectedLmTensors(Published("moshi_7b")));
  EXPECT_EQ(ExpectedLmTensors(*FindModelShape("personaplex-7b").lm),
            ExpectedLmTensors(Published("personaplex_7b")));
  EXPECT_EQ(FindModelShape("personaplex-7b").lm->family, Family::kPersonaPlex);
  const auto mimi = nlohmann::json::parse(ReadFile(SourcePath("tests/golden/names/mimi.json")));
  const MimiConfig published = ParseMimiConfig(mimi["config"].dump(), "mimi");
  const MimiConfig named = *FindModelShape("mimi").mimi;
  EXPECT_EQ(ExpectedMimiTensors(named), ExpectedMimiTensors(published));
  EXPECT_EQ(named.transformer.context, published.transformer.context);
  EXPECT_EQ(named.transformer.heads, published.transformer.heads);
  EXPECT_EQ(named.transformer.norm, published.transformer.norm);
  EXPECT_EQ(named.transformer.position, published.transformer.position);
  const Checkpoint embedded = Checkpoint::Open(SourcePath("models/embedded"));
  const ModelShape pico = FindModelShape("pico");
  EXPECT_EQ(ExpectedLmTensors(*pico.lm), ExpectedLmTensors(*embedded.lm_config()));
  EXPECT_EQ(ExpectedMimiTensors(*pico.mimi), ExpectedMimiTensors(*embedded.mimi_config()));
  EXPECT_EQ(pico.lm->temporal.context, embedded.lm_config()->temporal.context);
  EXPECT_EQ(pico.mimi->transformer.context, embedded.mimi_config()->transformer.context);
}

TEST(ModelShapes, UnknownOnesAreNamed) {
  try {
    FindModelShape("moshi-8b");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("expected pico, mid, moshi-7b, personaplex-7b, "
                                                 "mimi, a config.json or a checkpoint folder, "
                                                 "found \"moshi-8b\""));
  }
}

TEST(SyntheticCheckpoint, RunsAndStaysFinite) {
  const auto checkpoint =
      std::make_shared<const Checkpoint>(MakeSyntheticCheckpoint(FindModelShape("pico")));
  ModelOptions options;
  options.slots = 2;
  Model model(checkpoint, options, MakeExecutor("cpu", "auto", 1));
  for (int64_t tick = 0; tick < 20; ++tick) {
    for (const auto stage :
         {kernels::Stage::kEncode, kernels::Stage::kStep, kernels::Stage::kDecode}) {
      kernels::Control::Rows& rows = model.rows(stage);
      rows.count = 2;
      for (int32_t r = 0; r < 2; ++r) {
        rows.rows[r] = kernels::Row{};
        rows.rows[r].slot = r;
        rows.rows[r].position = tick;
        rows.rows[r].user_from_encoder = true;
      }
    }
    std::fill_n(model.given(0), 17, kernels::kNotGiven);
    std::fill_n(model.given(1), 17, kernels::kNotGiven);
    model.Run();
  }
  for (int i = 0; i < model.frame_samples(); ++i) ASSERT_TRUE(std::isfinite(model.pcm_out(1)[i]));
}

}  // namespace
}  // namespace antiphon::engine
