// `antiphon voice IN.wav --model DIR --name NAME`: makes a voice of a PersonaPlex checkpoint from a
// sample.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace antiphon::cli {

struct VoiceOptions {
  std::string in_wav, model, name;
  std::string executor = "cpu";
};

// Writes <model>/voices/<name>.safetensors with `codes` [agent codes, frames]: the sample at 24 kHz
// mono, brought to -24 LUFS, cut into frames of which the last is zero padded, encoded from a reset
// codec (tests/golden/ARCHITECTURE.md 4.3). Throws InputError and audio::AudioError.
void MakeVoice(const VoiceOptions& options);

void RegisterVoice(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
