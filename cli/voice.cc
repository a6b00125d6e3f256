#include "cli/voice.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "audio/loudness.h"
#include "audio/wav_file.h"
#include "engine/error.h"
#include "engine/make_executor.h"
#include "engine/model.h"

namespace antiphon::cli {
namespace {

constexpr double kVoiceLufs = -24.0;

// Codes by frame, [frames, levels].
std::vector<int32_t> Encode(engine::Model& model, const std::vector<float>& sound, size_t levels) {
  const auto samples = static_cast<size_t>(model.frame_samples());
  std::vector<int32_t> codes;
  kernels::Control::Rows& rows = model.rows(kernels::Stage::kEncode);
  for (size_t begin = 0; begin < sound.size(); begin += samples) {
    const size_t count = std::min(samples, sound.size() - begin);
    std::fill_n(model.pcm_in(0), samples, 0.0F);
    std::copy_n(sound.begin() + static_cast<std::ptrdiff_t>(begin), count, model.pcm_in(0));
    rows.rows[0] = kernels::Row{};
    rows.rows[0].position = static_cast<int64_t>(begin / samples);
    rows.count = 1;
    model.Run();
    codes.insert(codes.end(), model.user_codes(0), model.user_codes(0) + levels);
  }
  return codes;
}

// One I32 tensor `codes` [levels, frames] as a safetensors file.
void WriteCodes(const std::filesystem::path& path, const std::vector<int32_t>& by_frame,
                size_t levels) {
  const size_t frames = by_frame.size() / levels;
  std::vector<int32_t> by_level(by_frame.size());
  for (size_t f = 0; f < frames; ++f) {
    for (size_t q = 0; q < levels; ++q) by_level[q * frames + f] = by_frame[f * levels + q];
  }
  const nlohmann::json header = {{"codes",
                                  {{"dtype", "I32"},
                                   {"shape", {levels, frames}},
                                   {"data_offsets", {0, by_level.size() * 4}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  const uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  file.write(reinterpret_cast<const char*>(by_level.data()),
             static_cast<std::streamsize>(by_level.size() * sizeof(int32_t)));
  if (!file.flush()) throw InputError(path.string() + ": cannot be written");
}

}  // namespace

void MakeVoice(const VoiceOptions& options) {
  if (options.name.empty() || options.name.find('/') != std::string::npos ||
      options.name.front() == '.') {
    throw InputError("--name: expected a plain name, found \"" + options.name + "\"");
  }
  auto checkpoint =
      std::make_shared<const engine::Checkpoint>(engine::Checkpoint::Open(options.model));
  const engine::LmConfig* lm = checkpoint->lm_config();
  if (lm == nullptr || lm->family != engine::Family::kPersonaPlex ||
      checkpoint->mimi() == nullptr) {
    throw InputError(options.model +
                     ": expected a PersonaPlex checkpoint with its codec; other "
                     "models take no voices");
  }
  std::vector<float> sound =
      audio::ToMono(audio::ReadWav(options.in_wav), checkpoint->mimi_config()->sample_rate_hz);
  if (sound.empty()) throw InputError(options.in_wav + ": no samples");
  audio::NormalizeLoudness(kVoiceLufs, checkpoint->mimi_config()->sample_rate_hz, &sound);

  const auto levels = static_cast<size_t>(lm->agent_codes());
  engine::ModelOptions model_options;
  model_options.with_lm = false;
  model_options.codebooks = lm->agent_codes();
  engine::Model model(checkpoint, model_options, engine::MakeExecutor(options.executor, "fp32", 0));
  const std::vector<int32_t> codes = Encode(model, sound, levels);
  const std::filesystem::path folder = std::filesystem::path(options.model) / "voices";
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / (options.name + ".safetensors");
  WriteCodes(path, codes, levels);
  std::printf(
      "%s: %zu frames, %.1f s\n", path.c_str(), codes.size() / levels,
      static_cast<double>(codes.size() / levels) / checkpoint->mimi_config()->frame_rate_hz);
}

void RegisterVoice(CLI::App& app, int* exit_status) {
  const auto options = std::make_shared<VoiceOptions>();
  CLI::App* voice =
      app.add_subcommand("voice", "Make a voice of a PersonaPlex checkpoint from a WAV sample");
  voice->add_option("IN.wav", options->in_wav, "A few seconds of one speaker")->required();
  voice->add_option("--model", options->model, "Checkpoint folder")->required();
  voice->add_option("--name", options->name, "Name that callers choose it by")->required();
  voice->add_option("--executor", options->executor, "cpu or reference")->capture_default_str();
  voice->callback([options, exit_status] {
    MakeVoice(*options);
    *exit_status = 0;
  });
}

}  // namespace antiphon::cli
