// The engine with the embedded model: sessions, lockstep, replay, rings that wrap, and no
// allocation.
#include "engine/duplex_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/make_executor.h"
#include "tests/support/count_allocations.h"

namespace antiphon::engine {
namespace {

const std::string kEmbedded = std::string(ANTIPHON_SOURCE_DIR) + "/models/embedded";

std::unique_ptr<Engine> Make(const std::string& model, int slots,
                             const std::string& executor = "cpu") {
  EngineOptions options;
  options.model = model == "embedded" ? kEmbedded : model;
  options.slots = slots;
  options.executor = executor;
  options.threads = 2;
  return MakeEngine(options);
}

// A caller whose sound depends on his number alone.
class Caller {
 public:
  Caller(Engine& engine, int number, const SessionOptions& options)
      : engine_(engine), number_(number), prepared_(engine.Prepare(options)) {
    joined_ = engine_.Join(*prepared_, &slot_);
  }
  bool joined() const { return joined_; }
  SlotId slot() const { return slot_; }

  FrameIo Frame() {
    for (size_t i = 0; i < in_.size(); ++i, ++sample_) {
      const double t = static_cast<double>(sample_) / 24000.0;
      in_[i] = static_cast<float>(0.2 * std::sin(2.0 * M_PI * (200.0 + 70.0 * number_) * t) *
                                  std::sin(2.0 * M_PI * 2.0 * t));
    }
    FrameIo io;
    io.slot = slot_;
    io.pcm_in = in_.data();
    io.pcm_out = out_.data();
    return io;
  }
  void Take(const FrameIo& io) {
    texts.push_back(io.text_token);
    audible.push_back(io.has_audio);
    if (io.has_audio) heard.insert(heard.end(), out_.begin(), out_.end());
  }

  std::vector<int32_t> texts;
  std::vector<bool> audible;
  std::vector<float> heard;

 private:
  Engine& engine_;
  int number_;
  std::unique_ptr<PreparedSession> prepared_;
  SlotId slot_;
  bool joined_ = false;
  int64_t sample_ = 0;
  std::vector<float> in_ = std::vector<float>(1920), out_ = std::vector<float>(1920);
};

void Tick(Engine& engine, const std::vector<Caller*>& callers) {
  std::vector<FrameIo> frames;
  for (Caller* caller : callers) frames.push_back(caller->Frame());
  engine.Tick(frames);
  for (size_t i = 0; i < callers.size(); ++i) callers[i]->Take(frames[i]);
}

SessionOptions Sampling(const Engine& engine, uint64_t seed) {
  SessionOptions options = engine.info().defaults;
  options.seed = seed;
  return options;
}

TEST(DuplexEngineTest, TheFirstFrameHasNoSoundAndEveryLaterOneHas) {
  const auto engine = Make("embedded", 1);
  Caller caller(*engine, 0, Sampling(*engine, 1));
  for (int t = 0; t < 5; ++t) Tick(*engine, {&caller});
  EXPECT_THAT(caller.audible, testing::ElementsAre(false, true, true, true, true));
}

// Sessions that join, pause and leave beside it change nothing for a session.
TEST(DuplexEngineTest, BatchedSessionsEqualSingleOnes) {
  const auto alone = Make("embedded", 1);
  const auto shared = Make("embedded", 3);
  Caller single(*alone, 1, Sampling(*alone, 42));
  Caller other(*shared, 5, Sampling(*shared, 7));
  Caller batched(*shared, 1, Sampling(*shared, 42));
  Caller third(*shared, 9, Sampling(*shared, 8));
  for (int t = 0; t < 60; ++t) {
    Tick(*alone, {&single});
    if (t == 20) shared->Leave(other.slot());
    if (t % 3 == 0) {
      Tick(*shared, {&third, &batched});
    } else {
      Tick(*shared, {&batched, &other});
    }
  }
  EXPECT_EQ(single.texts, batched.texts);
  ASSERT_EQ(single.heard.size(), batched.heard.size());
  for (size_t i = 0; i < single.heard.size(); ++i) {
    ASSERT_NEAR(single.heard[i], batched.heard[i], 2e-5) << i;
  }
}

TEST(DuplexEngineTest, TheSameSeedGivesTheSameConversation) {
  const auto engine = Make("embedded", 2);
  Caller first(*engine, 1, Sampling(*engine, 3)), second(*engine, 1, Sampling(*engine, 3));
  Caller* const both[] = {&first, &second};
  for (int t = 0; t < 40; ++t) Tick(*engine, {both[0], both[1]});
  EXPECT_EQ(first.heard, second.heard);
  engine->Leave(first.slot());
  Caller other(*engine, 1, Sampling(*engine, 4));
  for (int t = 0; t < 40; ++t) Tick(*engine, {&other});
  EXPECT_NE(first.heard, other.heard);
}

// The context is 125 frames: after 400 the rings have wrapped three times, and a slot used before
// gives what a fresh one does.
TEST(DuplexEngineTest, ASessionGoesOnPastItsContextAndASlotForgets) {
  const auto engine = Make("embedded", 1);
  std::vector<float> heard[2];
  for (std::vector<float>& run : heard) {
    Caller caller(*engine, 2, Sampling(*engine, 5));
    for (int t = 0; t < 400; ++t) Tick(*engine, {&caller});
    for (const float sample : caller.heard) ASSERT_TRUE(std::isfinite(sample));
    engine->Leave(caller.slot());
    run = caller.heard;
  }
  EXPECT_EQ(heard[0].size(), 399U * 1920U);
  EXPECT_EQ(heard[0], heard[1]);
}

TEST(DuplexEngineTest, SlotsAreCountedAndOldGenerationsRefused) {
  const auto engine = Make("echo", 2);
  Caller first(*engine, 1, {}), second(*engine, 2, {}), third(*engine, 3, {});
  EXPECT_TRUE(first.joined());
  EXPECT_TRUE(second.joined());
  EXPECT_FALSE(third.joined());
  engine->Leave(first.slot());
  EXPECT_EQ(engine->Phase(first.slot()), SlotPhase::kFree);
  Caller fourth(*engine, 4, {});
  ASSERT_TRUE(fourth.joined());
  EXPECT_EQ(fourth.slot().index, first.slot().index);
  EXPECT_NE(fourth.slot().generation, first.slot().generation);
  engine->Leave(first.slot());  // of the tenant before: nothing
  EXPECT_EQ(engine->Phase(fourth.slot()), SlotPhase::kReady);
  Tick(*engine, {&first, &second, &fourth});
  EXPECT_FALSE(first.audible.back());
  EXPECT_TRUE(fourth.audible.back());
}

TEST(DuplexEngineTest, PrepareNamesTheFieldThatIsWrong) {
  const auto engine = Make("embedded", 1);
  const auto error = [&](const SessionOptions& options) -> std::string {
    try {
      engine->Prepare(options);
    } catch (const InputError& fault) {
      return fault.what();
    }
    return "";
  };
  SessionOptions options;
  options.voice = "../secret";
  EXPECT_THAT(error(options), testing::HasSubstr("voice: \"../secret\" is not one of"));
  options = {};
  options.text_prompt = "You are kind.";
  EXPECT_THAT(error(options), testing::HasSubstr("text_prompt: "));
  options = {};
  options.audio.temperature = NAN;
  EXPECT_THAT(error(options), testing::HasSubstr("audio_temperature: expected 0 to 2"));
  options = {};
  options.text.top_k = -1;
  EXPECT_THAT(error(options), testing::HasSubstr("text_top_k: "));
}

TEST(DuplexEngineTest, AThousandTicksAllocateNothing) {
  const auto engine = Make("embedded", 3);
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 3; ++i) {
    callers.push_back(std::make_unique<Caller>(*engine, i, Sampling(*engine, 1)));
  }
  FrameIo frames[3];
  for (size_t i = 0; i < 3; ++i) frames[i] = callers[i]->Frame();
  BeginCountingAllocations();
  for (size_t t = 0; t < 1000; ++t) {
    engine->Tick({frames, 1 + t % 3});
    engine->PrefillChunk();
    if (t % 100 == 0) engine->Leave(frames[2].slot);
  }
  EXPECT_EQ(EndCountingAllocations(), 0);
}

// A parked session's keys and values leave the pool, another talks on its pages, and after they
// came back the session goes on as if nothing had been.
TEST(ModelTest, ParkedPagesComeBackUnchanged) {
  for (const kernels::KvFormat format : {kernels::KvFormat::kF32, kernels::KvFormat::kInt4}) {
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::Open(kEmbedded));
    ModelOptions options;
    options.with_codec = false;
    options.slots = 2;
    options.kv = format;
    options.kv_prompt_pages = 0;
    const int ring = kernels::KvSlotPages(checkpoint->lm_config()->temporal.context, 16);
    options.kv_pool_pages = ring;  // room for one of the two
    const auto talk = [](Model& model, int slot, int64_t position) {
      kernels::Control::Rows& rows = model.rows(kernels::Stage::kStep);
      rows.count = 1;
      rows.rows[0] = kernels::Row{};
      rows.rows[0].slot = slot;
      rows.rows[0].position = position;
      std::fill_n(model.given(0), 17, kernels::kNotGiven);
      for (int q = 0; q < 8; ++q) {
        model.given(0)[9 + q] = static_cast<int32_t>((position * 37 + q * 11) % 512);
      }
      model.Run();
      return std::vector<int32_t>(model.out_tokens(0), model.out_tokens(0) + 9);
    };
    std::vector<std::vector<int32_t>> plain, parked;
    constexpr int64_t kBefore = 230, kAll = 300;
    {
      Model model(checkpoint, options, MakeExecutor("cpu", "fp32", 1));
      for (int64_t p = 0; p < kAll; ++p) plain.push_back(talk(model, 0, p));
    }
    Model model(checkpoint, options, MakeExecutor("cpu", "fp32", 1));
    for (int64_t p = 0; p < kBefore; ++p) parked.push_back(talk(model, 0, p));
    EXPECT_FALSE(model.ReserveKv(1)) << "the pool is the first one's";
    const ParkedKv kv = model.ParkKv(0);
    EXPECT_EQ(model.kv_pages()->free_pages(), ring);
    ASSERT_TRUE(model.ReserveKv(1));
    EXPECT_FALSE(model.UnparkKv(0, kv)) << "the pool is the second one's";
    for (int64_t p = 0; p < kBefore; ++p) talk(model, 1, p);
    model.ReleaseKv(1);
    ASSERT_TRUE(model.UnparkKv(0, kv));
    for (int64_t p = kBefore; p < kAll; ++p) parked.push_back(talk(model, 0, p));
    EXPECT_EQ(plain, parked);
  }
}

// What the training code computed for the same codes, greedily and in fp32. Its stream frame t is
// given at call t + 1: the codes of the first call never reach the model
// (tests/golden/ARCHITECTURE.md 3.4).
TEST(EmbeddedModelTest, FollowsTheTrainingCode) {
  ModelOptions options;
  options.with_codec = false;
  Model model(std::make_shared<const Checkpoint>(Checkpoint::Open(kEmbedded)), options,
              MakeExecutor("cpu", "fp32", 1));
  for (int n = 0; n < 5; ++n) {
    std::ifstream file(kEmbedded + "/samples/ref_" + std::to_string(n) + ".json");
    const nlohmann::json reference = nlohmann::json::parse(file);
    const size_t frames = reference["agent"][0].size();
    size_t same = 0;
    for (size_t call = 0; call <= frames; ++call) {
      kernels::Control::Rows& rows = model.rows(kernels::Stage::kStep);
      rows.rows[0] = kernels::Row{};
      rows.rows[0].position = static_cast<int64_t>(call);
      rows.count = 1;
      std::fill_n(model.given(0), 17, kernels::kNotGiven);
      for (size_t q = 0; q < 8 && call > 0; ++q) {
        model.given(0)[9 + q] = reference["user"][q][call - 1].get<int>();
      }
      model.Run();
      if (call == 0) continue;
      bool equal = model.out_tokens(0)[0] == reference["text"][call - 1].get<int>();
      for (size_t q = 0; q < 8; ++q) {
        equal = equal && model.out_tokens(0)[1 + q] == reference["agent"][q][call - 1].get<int>();
      }
      if (equal) ++same;
    }
    EXPECT_EQ(same, frames) << "sample " << n;
  }
}

}  // namespace
}  // namespace antiphon::engine
