// `antiphon check DIR...`: replays golden folders (tests/golden/README.md) on an executor and
// compares every tensor with what the engine computes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/safetensors.h"

namespace CLI {
class App;
}

namespace antiphon::cli {

struct CheckOptions {
  std::vector<std::string> folders;
  std::string executor = "cpu";
  std::string weights = "fp32";
  std::string kv = "fp32";
  int threads = 0;
  double tolerance = 1e-4;  // of a tensor's largest magnitude
  bool quiet = false;       // only failing tensors and the last lines
};

// Comparison of one folder, printed as it goes: a line per tensor with max abs and relative error
// or the number of mismatches.
class CheckReport {
 public:
  CheckReport(std::string folder, const CheckOptions& options)
      : folder_(std::move(folder)), options_(options) {}
  void Floats(const std::string& name, const std::vector<float>& expected,
              const std::vector<float>& found);
  void Tokens(const std::string& name, const std::vector<int32_t>& expected,
              const std::vector<int32_t>& found);
  void Note(const std::string& text);
  void Fail(const std::string& text);
  bool passed() const { return tensors_ > 0 && failures_ == 0; }
  int tensors() const { return tensors_; }
  const CheckOptions& options() const { return options_; }

 private:
  void Line(const std::string& name, const std::string& result, bool ok);
  std::string folder_;
  const CheckOptions& options_;
  int tensors_ = 0;
  int failures_ = 0;
};

// One folder's files, by what they hold.
struct GoldenFile {
  std::string name;  // "io_prompt_fullctx"
  std::shared_ptr<engine::SafeTensors> tensors;
  std::vector<float> FloatsOf(const std::string& tensor) const;
  std::vector<int32_t> IntsOf(const std::string& tensor) const;
  bool Has(const std::string& tensor) const { return tensors->Has(tensor); }
};

// A model for a replay, with taps.
std::unique_ptr<engine::Model> MakeCheckedModel(
    std::shared_ptr<const engine::Checkpoint> checkpoint, engine::ModelOptions options,
    const CheckOptions& check);

// Collects taps of one row over a run.
class TapRecorder {
 public:
  explicit TapRecorder(const engine::Model& model) : model_(model) {}
  // Appends the named tap's [steps, width] of a row.
  void Floats(const std::string& name, int row, std::vector<float>* out) const;
  void Ints(const std::string& name, int row, int first, int count,
            std::vector<int32_t>* out) const;

 private:
  const engine::Model& model_;
};

// The kinds of golden runs. Each throws InputError for files that are broken.
using Checkpoints = std::shared_ptr<const engine::Checkpoint>;
void CheckCodec(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report);
void CheckLmRun(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report);
void CheckForcedRun(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report);
void CheckBatch(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report);
void CheckPersonaPlex(const Checkpoints& checkpoint, const GoldenFile& io,
                      const std::string& voice_file, CheckReport& report);
void CheckServer(const Checkpoints& codec, const Checkpoints& lm, const GoldenFile& io,
                 CheckReport& report);
void CheckSampling(const GoldenFile& io, CheckReport& report);
void CheckTeacherForced(const Checkpoints& checkpoint, const GoldenFile& codes,
                        const GoldenFile& out, CheckReport& report);
void CheckManifest(const std::string& file, CheckReport& report);

// Runs all folders; the last line printed is `check: N folders, N passed, N failed`. Returns the
// exit status: 0 if all passed.
int RunCheck(const CheckOptions& options);
void RegisterCheck(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
