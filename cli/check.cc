#include "cli/check.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "engine/error.h"

namespace antiphon::cli {
namespace fs = std::filesystem;

namespace {

// A golden folder, sorted by what its files hold: nothing depends on the folder's name.
class GoldenFolder {
 public:
  GoldenFolder(fs::path path, CheckReport& report) : path_(std::move(path)), report_(report) {
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().extension() == ".safetensors") {
        GoldenFile file;
        file.name = entry.path().stem().string();
        file.tensors =
            std::make_shared<engine::SafeTensors>(engine::SafeTensors::Open(entry.path().string()));
        files_.emplace(file.name, std::move(file));
      } else if (entry.path().extension() == ".json" && entry.path().stem() != "config") {
        manifests_.push_back(entry.path().string());
      }
    }
    std::sort(manifests_.begin(), manifests_.end());
  }

  void Check() {
    if (!fs::exists(path_ / "config.json")) {
      for (const std::string& manifest : manifests_) CheckManifest(manifest, report_);
    }
    for (const auto& [name, file] : files_) CheckFile(file);
    // Weights under another naming give the same results.
    for (const auto& [name, file] : files_) {
      if (name.rfind("model_", 0) == 0) CheckOtherWeights(name);
    }
    if (report_.tensors() == 0) report_.Fail("no golden files found");
  }

 private:
  void CheckFile(const GoldenFile& file) {
    if (file.Has("pcm_in") && file.Has("user_codes")) {
      CheckServer(Sibling("seanet"), Sibling("moshi"), file, report_);
    } else if (file.Has("pcm_in")) {
      CheckCodec(Own(), file, report_);
    } else if (file.Has("exec_mask")) {
      CheckBatch(Own(), file, report_);
    } else if (file.Has("phase")) {
      CheckPersonaPlex(Own(), file, VoiceFile(), report_);
    } else if (file.Has("forced_text")) {
      CheckForcedRun(Own(), file, report_);
    } else if (file.Has("user_codes")) {
      CheckLmRun(Own(), file, report_);
    } else if (file.Has("logits") && file.Has("text_logits")) {
      CheckTeacherForced(Own(), Holding("codes"), file, report_);
    } else if (file.Has("logits")) {
      CheckSampling(file, report_);
    }
  }

  Checkpoints Own() {
    if (!own_) {
      own_ = std::make_shared<const engine::Checkpoint>(engine::Checkpoint::Open(path_.string()));
    }
    return own_;
  }

  void CheckOtherWeights(const std::string& weights) {
    const auto other = std::make_shared<const engine::Checkpoint>(
        engine::Checkpoint::Open(path_.string(), weights + ".safetensors"));
    for (const auto& [name, file] : files_) {
      if (!file.Has("user_codes") || file.Has("exec_mask") || file.Has("phase")) continue;
      GoldenFile renamed = file;
      renamed.name = weights + ":" + name;
      CheckLmRun(other, renamed, report_);
    }
  }

  const GoldenFile& Holding(const std::string& tensor) const {
    for (const auto& [name, file] : files_) {
      if (file.Has(tensor)) return file;
    }
    throw InputError(path_.string() + ": no file holds a tensor named " + tensor);
  }

  std::string VoiceFile() const {
    for (const auto& [name, file] : files_) {
      if (file.Has("embeddings") && file.Has("cache")) {
        return (path_ / (name + ".safetensors")).string();
      }
    }
    return "";
  }

  // The live loop's models lie beside it: the codec folder, and the plain Moshi one.
  Checkpoints Sibling(const std::string& kind) const {
    std::string wanted = kind == "seanet" ? "mimi" : "moshi";
    for (const auto& entry : fs::directory_iterator(fs::absolute(path_).parent_path())) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name.rfind(wanted, 0) == 0) {
        return std::make_shared<const engine::Checkpoint>(
            engine::Checkpoint::Open(entry.path().string()));
      }
    }
    throw InputError(path_.string() + ": expected a folder " + wanted + "* beside it");
  }

  fs::path path_;
  CheckReport& report_;
  std::map<std::string, GoldenFile> files_;
  std::vector<std::string> manifests_;
  Checkpoints own_;
};

bool CheckFolder(const std::string& folder, const CheckOptions& options) {
  std::printf("%s\n", folder.c_str());
  CheckReport report(folder, options);
  try {
    GoldenFolder(folder, report).Check();
  } catch (const InputError& error) {
    report.Fail(error.what());
  }
  std::printf("%s: %s (%d tensors)\n", folder.c_str(), report.passed() ? "passed" : "FAILED",
              report.tensors());
  return report.passed();
}

}  // namespace

int RunCheck(const CheckOptions& options) {
  int passed = 0, failed = 0;
  for (const std::string& folder : options.folders) {
    if (fs::is_regular_file(folder)) {
      std::printf("%s: a file, skipped\n", folder.c_str());
      continue;
    }
    bool ok = false;
    if (fs::is_directory(folder)) {
      ok = CheckFolder(folder, options);
    } else {
      std::printf("%s: no such folder\n", folder.c_str());
    }
    ++(ok ? passed : failed);
  }
  std::printf("check: %d folders, %d passed, %d failed\n", passed + failed, passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

void RegisterCheck(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* check = app.add_subcommand("check", "Replay golden folders and compare every tensor");
  check->add_option("folders", options->folders, "Golden folders")->required();
  check->add_option("--executor", options->executor, "cpu or reference")->capture_default_str();
  check->add_option("--weights", options->weights, "fp32, bf16, auto, int8 or int4")
      ->capture_default_str();
  check->add_option("--kv", options->kv, "fp32, bf16, int8 or int4")->capture_default_str();
  check->add_option("--threads", options->threads, "Workers, 0: one per core");
  check
      ->add_option("--tolerance", options->tolerance,
                   "Largest error, of the tensor's largest value")
      ->capture_default_str();
  check->add_flag("--quiet", options->quiet, "Print failing tensors only");
  check->callback([options, exit_status] { *exit_status = RunCheck(*options); });
}

}  // namespace antiphon::cli
