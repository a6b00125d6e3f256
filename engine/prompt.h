// PersonaPlex's system prompt (tests/golden/ARCHITECTURE.md 4.3): the frames that are run through
// the model before the conversation: voice, silence, persona text, silence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "kernels/token_grid.h"

namespace antiphon::engine {

// A stored voice: either the codes of a sample, or the published form, summed input embeddings with
// the token ring that they leave behind.
struct Voice {
  std::string name;
  std::vector<int32_t> codes;     // [frames, agent codes]
  std::vector<float> embeddings;  // [evaluations, dim]
  std::vector<int32_t> ring;      // [streams, ring_size], slot = position mod ring_size
  int frames = 0;                 // calls that the voice takes
  int ring_size = 0;
};

// Reads <name>.safetensors: `codes` [agent codes, frames] I32, or `embeddings` [n, 1, 1, dim] with
// `cache` [1, streams, ring_size]. Throws InputError naming file and tensor.
Voice ReadVoice(const std::string& path, const LmConfig& config);

// Fixed frames that stand for silence (agent) and for a caller's tone (user) while prompts run.
struct PromptFrames {
  std::vector<int32_t> silence;
  std::vector<int32_t> sine;
  int silence_frames = 6;  // int(0.5 s * 12.5 Hz)
};
// The published constants.
PromptFrames PublishedPromptFrames();

// One call of the prompt: what is given to all streams, or an embedding to be fed as it is.
struct PromptCall {
  std::vector<int32_t> given;        // [streams]; empty where an embedding is fed
  const float* embedding = nullptr;  // [dim], lives in the voice
};

struct Prompt {
  Voice voice;
  std::vector<PromptCall> calls;
  int embedding_calls = 0;  // the first calls that feed embeddings; the ring is restored after them
};

// `<system> text <system>`, unless the text already stands between such tags; empty text stays
// empty.
std::string WrapSystemTags(const std::string& text);

// REQUIRES: config.family is PersonaPlex. text_tokens: of the wrapped text.
Prompt MakePrompt(const LmConfig& config, const PromptFrames& frames, Voice voice,
                  const std::vector<int32_t>& text_tokens);

// Puts the token ring that a stored voice left behind into a slot's grid ([2, streams, ring], see
// token_grid.h), after the voice's last call.
void RestoreRing(const Voice& voice, const kernels::TokenLayout& layout, int32_t* grid) noexcept;

}  // namespace antiphon::engine
