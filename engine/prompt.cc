#include "engine/prompt.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"
#include "engine/safetensors.h"

namespace antiphon::engine {
namespace {

const char kTag[] = "<system>";

std::string Stripped(const std::string& text) {
  const char* space = " \t\r\n";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

}  // namespace

Voice ReadVoice(const std::string& path, const LmConfig& config) {
  const SafeTensors file = SafeTensors::Open(path);
  Voice voice;
  voice.name = path;
  if (file.Has("codes")) {
    const TensorView& codes = file.Get("codes");
    const int agent = config.agent_codes();
    if (codes.shape.size() != 2 || codes.shape[0] != agent || codes.shape[1] < 1) {
      throw InputError(path + ": tensor codes: expected shape [" + std::to_string(agent) +
                       ", frames]");
    }
    voice.frames = static_cast<int>(codes.shape[1]);
    std::vector<int32_t> by_level(static_cast<size_t>(codes.elements()));
    ReadInts(codes, 0, codes.elements(), by_level.data());
    for (int frame = 0; frame < voice.frames; ++frame) {
      for (int level = 0; level < agent; ++level) {
        const int32_t code = by_level[static_cast<size_t>(level * voice.frames + frame)];
        if (code < 0 || code >= config.card) {
          throw InputError(path + ": tensor codes: expected values below " +
                           std::to_string(config.card) + ", found " + std::to_string(code));
        }
        voice.codes.push_back(code);
      }
    }
    return voice;
  }
  const TensorView& embeddings = file.Get("embeddings");
  const TensorView& cache = file.Get("cache");
  const int64_t dim = config.temporal.dim;
  if (embeddings.shape.empty() || embeddings.shape.back() != dim || embeddings.elements() == 0) {
    throw InputError(path + ": tensor embeddings: expected shape [n, 1, 1, " + std::to_string(dim) +
                     "]");
  }
  if (cache.shape.size() != 3 || cache.shape[1] != config.streams() ||
      cache.shape[2] < config.max_delay() + 1) {
    throw InputError(path + ": tensor cache: expected shape [1, " +
                     std::to_string(config.streams()) + ", " +
                     std::to_string(config.max_delay() + 3) + "]");
  }
  voice.embeddings.resize(static_cast<size_t>(embeddings.elements()));
  ReadFloats(embeddings, 0, embeddings.elements(), voice.embeddings.data());
  voice.ring.resize(static_cast<size_t>(cache.elements()));
  ReadInts(cache, 0, cache.elements(), voice.ring.data());
  voice.ring_size = static_cast<int>(cache.shape[2]);
  voice.frames = static_cast<int>(embeddings.elements() / dim) + 1;
  return voice;
}

PromptFrames PublishedPromptFrames() {
  PromptFrames frames;
  frames.silence = {948, 243, 1178, 546, 1736, 1030, 1978, 2008};
  frames.sine = {430, 1268, 381, 1611, 1095, 1495, 56, 472};
  return frames;
}

std::string WrapSystemTags(const std::string& text) {
  const std::string tag = kTag;
  const std::string body = Stripped(text);
  if (body.empty()) return "";
  const bool wrapped = body.size() >= 2 * tag.size() && body.compare(0, tag.size(), tag) == 0 &&
                       body.compare(body.size() - tag.size(), tag.size(), tag) == 0;
  return wrapped ? body : tag + " " + body + " " + tag;
}

Prompt MakePrompt(const LmConfig& config, const PromptFrames& frames, Voice voice,
                  const std::vector<int32_t>& text_tokens) {
  Prompt prompt;
  prompt.voice = std::move(voice);
  const auto agent = static_cast<size_t>(config.agent_codes());
  const auto add = [&](int32_t text, const int32_t* codes) {
    PromptCall call;
    call.given.push_back(text);
    call.given.insert(call.given.end(), codes, codes + agent);
    call.given.insert(call.given.end(), frames.sine.begin(), frames.sine.end());
    prompt.calls.push_back(std::move(call));
  };
  const auto add_silence = [&] {
    for (int i = 0; i < frames.silence_frames; ++i) {
      add(config.text_padding_id, frames.silence.data());
    }
  };
  const Voice& stored = prompt.voice;
  if (!stored.embeddings.empty()) {
    // The first call evaluates nothing; each further one feeds a stored embedding.
    prompt.embedding_calls = stored.frames;
    prompt.calls.resize(static_cast<size_t>(stored.frames));
    for (int i = 1; i < stored.frames; ++i) {
      prompt.calls[static_cast<size_t>(i)].embedding =
          stored.embeddings.data() + int64_t{i - 1} * config.temporal.dim;
    }
  } else {
    for (int i = 0; i < stored.frames; ++i) {
      add(config.text_padding_id, stored.codes.data() + static_cast<size_t>(i) * agent);
    }
  }
  add_silence();
  for (const int32_t token : text_tokens) add(token, frames.silence.data());
  add_silence();
  return prompt;
}

void RestoreRing(const Voice& voice, const kernels::TokenLayout& layout, int32_t* grid) noexcept {
  int32_t* tags = grid + layout.streams * layout.ring;
  const int64_t newest = voice.frames - 1 + layout.max_delay;
  for (int64_t p = std::max<int64_t>(0, newest - voice.ring_size + 1); p <= newest; ++p) {
    for (int32_t s = 0; s < layout.streams; ++s) {
      const auto cell = static_cast<int32_t>(s * layout.ring + p % layout.ring);
      grid[cell] = voice.ring[static_cast<size_t>(s * voice.ring_size + p % voice.ring_size)];
      tags[cell] = kernels::GridTag(p, true);
    }
  }
}

}  // namespace antiphon::engine
