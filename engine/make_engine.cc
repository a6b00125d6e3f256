#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/duplex_engine.h"
#include "engine/engine.h"
#include "engine/error.h"
#include "engine/make_executor.h"
#include "engine/model.h"

namespace antiphon::engine {
namespace {

// Last component of a folder's path.
std::string NameOf(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return std::filesystem::path(folder).filename().string();
}

void RequireCodec(const Checkpoint& checkpoint) {
  if (checkpoint.mimi() == nullptr) {
    throw InputError(checkpoint.folder() +
                     ": no Mimi codec weights (mimi.safetensors or "
                     "tokenizer-*-checkpoint*.safetensors); they are published with the model");
  }
}

}  // namespace

std::unique_ptr<kernels::Executor> MakeExecutor(const std::string& name, const std::string& weights,
                                                int threads) {
  if (threads < 0 || threads > 256) {
    throw InputError("threads: expected 0 (one per core) to 256, found " + std::to_string(threads));
  }
  kernels::CpuExecutorOptions cpu;
  cpu.threads = threads;
  cpu.weights = ParseWeightFormat(weights);
  if (name == "cpu") return kernels::MakeCpuExecutor(cpu);
  if (name == "reference") return kernels::MakeReferenceExecutor();
  throw InputError("executor: expected cpu or reference, found \"" + name + "\"");
}

kernels::WeightFormat ParseWeightFormat(const std::string& name) {
  if (name == "auto") return kernels::WeightFormat::kAuto;
  if (name == "fp32") return kernels::WeightFormat::kF32;
  if (name == "bf16") return kernels::WeightFormat::kBf16;
  if (name == "int8") return kernels::WeightFormat::kInt8;
  if (name == "int4") return kernels::WeightFormat::kInt4;
  throw InputError("weights: expected auto, fp32, bf16, int8 or int4, found \"" + name + "\"");
}

kernels::KvFormat ParseKvFormat(const std::string& name) {
  if (name == "auto" || name == "fp32") return kernels::KvFormat::kF32;
  if (name == "bf16") return kernels::KvFormat::kBf16;
  if (name == "int8") return kernels::KvFormat::kInt8;
  if (name == "int4") return kernels::KvFormat::kInt4;
  throw InputError("kv: expected auto, fp32, bf16, int8 or int4, found \"" + name + "\"");
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options) {
  if (options.slots < 1 || options.slots > 1024) {
    throw InputError("slots: expected 1 to 1024, found " + std::to_string(options.slots));
  }
  const bool built_in = options.model == "echo" || options.model == "embedded";
  const std::string folder = built_in ? FindBuiltInModel("embedded") : options.model;
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::Open(folder));
  RequireCodec(*checkpoint);
  // A folder of the codec alone is an echo through that codec.
  const bool echo = options.model == "echo" || checkpoint->lm() == nullptr;

  ModelOptions model;
  model.slots = options.slots;
  model.echo = echo;
  model.with_lm = !echo;
  model.kv = ParseKvFormat(options.kv);
  const LmConfig* lm = checkpoint->lm_config();
  model.force_given = !echo && lm->family == Family::kPersonaPlex;
  // Prompts, and so prefill, are PersonaPlex's.
  if (!model.force_given) model.prefill_rows = 0;
  DuplexOptions duplex;
  duplex.model_name = built_in ? options.model : NameOf(folder);
  auto executor = MakeExecutor(options.executor, options.weights, options.threads);
  return MakeDuplexEngine(std::make_unique<Model>(checkpoint, model, std::move(executor)),
                          std::move(duplex));
}

}  // namespace antiphon::engine
