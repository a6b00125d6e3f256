// The Engine over a Model: slots with generations, prompts run in chunks, and per tick one lockstep
// run of all due sessions. Also the codec-only "echo" model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model.h"
#include "engine/prompt.h"

namespace antiphon::engine {

struct DuplexOptions {
  std::string model_name;
  PromptFrames prompt_frames = PublishedPromptFrames();
};

// `model` was built with codec, and with the LM unless options.echo. Warms up every bucket.
std::unique_ptr<Engine> MakeDuplexEngine(std::unique_ptr<Model> model, DuplexOptions options);

}  // namespace antiphon::engine
