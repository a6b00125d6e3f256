// PersonaPlex's prompts through the engine: prefilled in chunks between other sessions' ticks, and
// the conversation that follows is the same whatever lay between.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "engine/duplex_engine.h"
#include "engine/make_executor.h"
#include "tests/engine/model_folder.h"

namespace antiphon::engine {
namespace {

// A folder as published, put together from the tiny golden ones.
class PersonaFolder {
 public:
  PersonaFolder() {
    folder_.Link("tests/golden/personaplex-tiny/model.safetensors", "model.safetensors");
    folder_.Link("tests/golden/personaplex-tiny/config.json", "config.json");
    folder_.Link("tests/golden/mimi-tiny/model.safetensors", "mimi.safetensors");
    folder_.Link("tests/golden/mimi-tiny/config.json", "mimi_config.json");
    std::filesystem::create_directory(folder_.path() / "voices");
    folder_.Link("tests/golden/personaplex-tiny/voice_prompt.safetensors",
                 "voices/anna.safetensors");
  }

  std::unique_ptr<Engine> Make(int slots) const {
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::Open(folder_.str()));
    ModelOptions model;
    model.slots = slots;
    model.force_given = true;
    model.prefill_rows = 4;
    DuplexOptions options;
    // The published frames are codes of a codec with 2,048 a book; this one has 32.
    options.prompt_frames.silence = {1, 2, 3, 4, 5, 6, 7, 8};
    options.prompt_frames.sine = {8, 7, 6, 5, 4, 3, 2, 1};
    return MakeDuplexEngine(
        std::make_unique<Model>(checkpoint, model, MakeExecutor("cpu", "fp32", 2)), options);
  }

 private:
  TempFolder folder_;
};

struct Heard {
  std::vector<int32_t> text;
  std::vector<float> sound;
};

// One frame of a session with its own sound.
void Tick(Engine& engine, SlotId slot, int frame, int voice, Heard* heard) {
  const auto samples = static_cast<size_t>(engine.info().frame_samples);
  std::vector<float> in(samples), out(samples);
  for (size_t i = 0; i < samples; ++i) {
    const double t = static_cast<double>(static_cast<size_t>(frame) * samples + i) / 24000.0;
    in[i] = static_cast<float>(0.3 * std::sin(2 * M_PI * (150.0 + 90.0 * voice) * t));
  }
  FrameIo io;
  io.slot = slot;
  io.pcm_in = in.data();
  io.pcm_out = out.data();
  engine.Tick({&io, 1});
  heard->text.push_back(io.text_token);
  if (io.has_audio) heard->sound.insert(heard->sound.end(), out.begin(), out.end());
}

SessionOptions Persona(const Engine& engine) {
  SessionOptions options = engine.info().defaults;
  options.voice = "anna";
  options.seed = 11;
  return options;
}

TEST(PersonaPromptTest, ThePromptIsReadAndShapesWhatFollows) {
  const PersonaFolder folder;
  const auto engine = folder.Make(1);
  ASSERT_EQ(engine->info().family, "personaplex");
  ASSERT_EQ(engine->info().voices, std::vector<std::string>{"anna"});
  Heard with, without;
  const auto prompted = engine->Prepare(Persona(*engine));
  EXPECT_GT(prompted->prefill_frames(), 0);
  SlotId slot;
  ASSERT_TRUE(engine->Join(*prompted, &slot));
  ASSERT_EQ(engine->Phase(slot), SlotPhase::kPrefill);
  int chunks = 1;
  while (engine->PrefillChunk()) ++chunks;
  EXPECT_GE(chunks, prompted->prefill_frames() / 4) << "at most four positions a chunk";
  ASSERT_EQ(engine->Phase(slot), SlotPhase::kReady);
  for (int frame = 0; frame < 20; ++frame) Tick(*engine, slot, frame, 0, &with);
  engine->Leave(slot);

  SessionOptions plain = Persona(*engine);
  plain.voice.clear();
  const auto unprompted = engine->Prepare(plain);
  EXPECT_EQ(unprompted->prefill_frames(), 0);
  ASSERT_TRUE(engine->Join(*unprompted, &slot));
  for (int frame = 0; frame < 20; ++frame) Tick(*engine, slot, frame, 0, &without);
  EXPECT_FALSE(with.sound.empty());
  EXPECT_NE(with.sound, without.sound);
}

TEST(PersonaPromptTest, OtherSessionsAndThePromptDoNotTouchEachOther) {
  const PersonaFolder folder;
  Heard alone, other_alone;
  {
    const auto engine = folder.Make(2);
    const auto session = engine->Prepare(Persona(*engine));
    SlotId slot;
    ASSERT_TRUE(engine->Join(*session, &slot));
    while (engine->PrefillChunk()) {
    }
    for (int frame = 0; frame < 20; ++frame) Tick(*engine, slot, frame, 0, &alone);
  }
  SessionOptions plain;
  plain.seed = 5;
  {
    const auto engine = folder.Make(2);
    const auto session = engine->Prepare(plain);
    SlotId slot;
    ASSERT_TRUE(engine->Join(*session, &slot));
    for (int frame = 0; frame < 60; ++frame) Tick(*engine, slot, frame, 1, &other_alone);
  }
  // Now the other one talks, this one joins in its middle, and a chunk follows every tick.
  const auto engine = folder.Make(2);
  const auto other = engine->Prepare(plain), session = engine->Prepare(Persona(*engine));
  SlotId other_slot, slot;
  Heard together, other_together;
  ASSERT_TRUE(engine->Join(*other, &other_slot));
  int frame = 0;
  for (; frame < 7; ++frame) Tick(*engine, other_slot, frame, 1, &other_together);
  ASSERT_TRUE(engine->Join(*session, &slot));
  int own = 0;
  for (; frame < 60; ++frame) {
    Tick(*engine, other_slot, frame, 1, &other_together);
    if (engine->Phase(slot) == SlotPhase::kReady) {
      if (own < 20) Tick(*engine, slot, own++, 0, &together);
    } else {
      engine->PrefillChunk();
    }
  }
  ASSERT_EQ(own, 20);
  EXPECT_EQ(together.text, alone.text);
  EXPECT_EQ(together.sound, alone.sound);
  EXPECT_EQ(other_together.text, other_alone.text);
  EXPECT_EQ(other_together.sound, other_alone.sound);
}

}  // namespace
}  // namespace antiphon::engine
