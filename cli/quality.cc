#include "cli/quality.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "audio/wav_file.h"
#include "engine/error.h"

namespace antiphon::cli {
namespace {

namespace fs = std::filesystem;

struct QualityOptions {
  std::string folder;
  std::string against = "fp32";
  std::vector<std::string> audio;
  std::vector<std::string> weights = {"bf16", "int8", "int4"};
  std::vector<std::string> kv = {"fp32", "bf16", "int8", "int4"};
  bool per_codebook = false;
};

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x - peak);
  const double shift = peak + std::log(sum);
  std::vector<double> out(logits.begin(), logits.end());
  for (double& x : out) x -= shift;
  return out;
}

size_t ArgMax(const std::vector<float>& x) {
  return static_cast<size_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

double Mean(const std::vector<double>& x, size_t begin, size_t end) {
  return std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(begin),
                         x.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
         static_cast<double>(end - begin);
}

// The recordings named, else the folder's own teacher-forced tokens, else its samples.
std::vector<Conversation> Conversations(const QualityOptions& options,
                                        const CheckpointPtr& checkpoint) {
  std::vector<Conversation> out;
  std::vector<std::string> recordings = options.audio;
  if (recordings.empty()) {
    for (const auto& entry : fs::directory_iterator(checkpoint->folder())) {
      if (entry.path().extension() != ".safetensors") continue;
      Conversation conversation = ReadConversation(checkpoint, entry.path().string());
      if (conversation.frames > 0) out.push_back(std::move(conversation));
    }
    if (!out.empty()) return out;
    const fs::path samples = fs::path(checkpoint->folder()) / "samples";
    if (fs::is_directory(samples)) {
      for (const auto& entry : fs::directory_iterator(samples)) {
        if (entry.path().filename().string().rfind("user_", 0) == 0) {
          recordings.push_back(entry.path().string());
        }
      }
      std::sort(recordings.begin(), recordings.end());
    }
  }
  if (recordings.empty() || checkpoint->mimi() == nullptr) {
    throw InputError("--audio: expected recordings for a model with its codec: " +
                     checkpoint->folder() + " has neither samples nor recorded codes");
  }
  for (const std::string& recording : recordings) {
    std::vector<float> sound =
        audio::ToMono(audio::ReadWav(recording), checkpoint->mimi_config()->sample_rate_hz);
    // The answer comes after the question.
    sound.resize(sound.size() + 5 * static_cast<size_t>(checkpoint->mimi_config()->sample_rate_hz));
    out.push_back(Converse(checkpoint, sound));
  }
  return out;
}

std::vector<Evaluation> ScoreAll(const CheckpointPtr& checkpoint, const Formats& formats,
                                 const std::vector<Conversation>& conversations) {
  TeacherForcing model(checkpoint, formats);
  std::vector<Evaluation> all;
  for (const Conversation& conversation : conversations) {
    for (Evaluation& evaluation : model.Score(conversation)) all.push_back(std::move(evaluation));
  }
  return all;
}

void Print(const Formats& formats, const QualityRow& row, bool per_codebook) {
  const size_t streams = row.kl.size();
  std::printf("%-7s %-5s %9.2f %% %11.5f %11.5f %9.2f %% %11.5f %11.5f\n", formats.weights.c_str(),
              formats.kv.c_str(), 100 * row.agreement[0], row.nll_rise[0], row.kl[0],
              100 * Mean(row.agreement, 1, streams), Mean(row.nll_rise, 1, streams),
              Mean(row.kl, 1, streams));
  if (!per_codebook) return;
  for (size_t k = 1; k < streams; ++k) {
    std::printf("  codebook %-2zu  agreement %6.2f %%  nll rise %8.5f  kl %8.5f\n", k - 1,
                100 * row.agreement[k], row.nll_rise[k], row.kl[k]);
  }
}

int RunQuality(const QualityOptions& options) {
  const std::string folder =
      options.folder == "embedded" ? engine::FindBuiltInModel("embedded") : options.folder;
  const auto checkpoint =
      std::make_shared<const engine::Checkpoint>(engine::Checkpoint::Open(folder));
  if (checkpoint->lm_config() == nullptr) throw InputError(folder + ": no language model");
  const std::vector<Conversation> conversations = Conversations(options, checkpoint);
  const std::vector<Evaluation> reference =
      ScoreAll(checkpoint, {options.against, "fp32"}, conversations);
  std::printf("%s: %zu frames of %zu conversations, against %s weights and fp32 keys and values\n",
              folder.c_str(), reference.size(), conversations.size(), options.against.c_str());
  std::printf("%-7s %-5s %11s %11s %11s %11s %11s %11s\n", "weights", "kv", "text agree",
              "nll rise", "kl", "codes agree", "nll rise", "kl");
  for (const std::string& weights : options.weights) {
    for (const std::string& kv : options.kv) {
      const Formats formats{weights, kv};
      Print(formats, CompareQuality(reference, ScoreAll(checkpoint, formats, conversations)),
            options.per_codebook);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

QualityRow CompareQuality(const std::vector<Evaluation>& reference,
                          const std::vector<Evaluation>& found) {
  const size_t streams = reference.front().logits.size();
  QualityRow row;
  row.agreement.resize(streams);
  row.nll_rise.resize(streams);
  row.kl.resize(streams);
  for (size_t s = 0; s < streams; ++s) {
    double evaluations = 0.0, tokens = 0.0;
    for (size_t e = 0; e < reference.size(); ++e) {
      const std::vector<double> p = LogSoftmax(reference[e].logits[s]);
      const std::vector<double> q = LogSoftmax(found[e].logits[s]);
      ++evaluations;
      row.agreement[s] += ArgMax(reference[e].logits[s]) == ArgMax(found[e].logits[s]) ? 1.0 : 0.0;
      for (size_t i = 0; i < p.size(); ++i) row.kl[s] += std::exp(p[i]) * (p[i] - q[i]);
      const int32_t token = reference[e].tokens[s];
      if (token < 0) continue;
      ++tokens;
      row.nll_rise[s] += p[static_cast<size_t>(token)] - q[static_cast<size_t>(token)];
    }
    row.agreement[s] /= evaluations;
    row.kl[s] /= evaluations;
    row.nll_rise[s] /= std::max(1.0, tokens);
  }
  return row;
}

void RegisterQuality(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<QualityOptions>();
  CLI::App* quality =
      app.add_subcommand("quality", "What weight and key/value formats cost, teacher-forced");
  quality->add_option("folder", options->folder, "embedded, a checkpoint or a golden folder")
      ->required();
  quality->add_option("--against", options->against, "Weights of the reference: fp32 or bf16")
      ->capture_default_str();
  quality->add_option("--audio", options->audio, "Recordings of callers (WAV)");
  quality->add_option("--weights", options->weights, "Formats of weights")
      ->delimiter(',')
      ->capture_default_str();
  quality->add_option("--kv", options->kv, "Formats of keys and values")
      ->delimiter(',')
      ->capture_default_str();
  quality->add_flag("--per-codebook", options->per_codebook, "A line per codebook");
  quality->callback([options, exit_status] { *exit_status = RunQuality(*options); });
}

}  // namespace antiphon::cli
