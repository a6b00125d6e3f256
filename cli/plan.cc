#include "cli/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/capacity.h"
#include "engine/error.h"
#include "engine/make_executor.h"
#include "engine/model_shapes.h"

namespace antiphon::cli {
namespace {

using engine::Bound;
using engine::Capacity;
using engine::Checkpoint;
using engine::Cost;
using engine::MemoryTable;
using engine::ModelPlans;
using engine::TickTime;

struct PlanOptions {
  std::string model;
  std::string machine = "auto";
  std::string weights = "auto";
  std::string kv = "auto";
  int sessions = 1;
  double margin = 0.2;
  bool explain = false;
};

constexpr const char* kParts[kernels::kParts] = {"encode", "temporal", "depth", "decode"};

const char* BoundName(Bound bound) {
  switch (bound) {
    case Bound::kBandwidth:
      return "bandwidth";
    case Bound::kCompute:
      return "compute";
    case Bound::kChain:
      return "serial chain";
  }
  return "";
}

const char* KindName(kernels::OpKind kind) {
  constexpr const char* kNames[] = {"linear",    "norm",       "activation",  "gate",
                                    "window",    "upsample",   "rope append", "attention",
                                    "embed",     "sinusoids",  "add vector",  "inject",
                                    "tokens in", "tokens out", "sample",      "codebook pick"};
  return kNames[static_cast<size_t>(kind)];
}

// A folder's own tensors decide what "auto" weights are; a shape's are as published.
Checkpoint OpenModel(const std::string& model) {
  if (model == "embedded") return Checkpoint::Open(engine::FindBuiltInModel(model));
  if (std::filesystem::is_directory(model)) return Checkpoint::Open(model);
  return engine::MakeSyntheticCheckpoint(engine::FindModelShape(model));
}

ModelPlans PlanOf(const Checkpoint& checkpoint, const PlanOptions& options, const std::string& kv) {
  engine::ModelOptions model;
  model.slots = options.sessions;
  model.kv = engine::ParseKvFormat(kv);
  const engine::LmConfig* lm = checkpoint.lm_config();
  model.with_lm = lm != nullptr;
  model.echo = lm == nullptr;
  model.force_given = lm != nullptr && lm->family == engine::Family::kPersonaPlex;
  // As the daemon does: prompts, and so prefill, are PersonaPlex's.
  if (!model.force_given) model.prefill_rows = 0;
  return PlanModel(checkpoint, model);
}

double Mb(double bytes) { return bytes * 1e-6; }

class Report {
 public:
  Report(const PlanOptions& options, const Checkpoint& checkpoint)
      : options_(options),
        checkpoint_(checkpoint),
        plans_(PlanOf(checkpoint, options, options.kv)),
        capacity_(plans_, engine::ParseWeightFormat(options.weights),
                  engine::FindMachine(options.machine)) {
    const engine::LmConfig* lm = checkpoint.lm_config();
    position_ =
        lm != nullptr ? lm->temporal.context - 1 : checkpoint.mimi_config()->transformer.context;
  }

  void Print() const {
    const engine::Machine& machine = capacity_.machine();
    std::printf(
        "%s on %s: %.1f GB usable, %.1f GB/s, %.2f T multiply-adds/s, %.1f us an operation\n",
        options_.model.c_str(), machine.name.c_str(), machine.usable_bytes() * 1e-9,
        machine.bandwidth * 1e-9, machine.macs * 1e-12, machine.op_s * 1e6);
    std::printf("(%s)\n\n", machine.source.c_str());
    Memory();
    Tick();
    Sessions();
    Prefill();
  }

  void Explain() const {
    const kernels::Plan& plan = *plans_.Tick(options_.sessions);
    std::printf("%5s %-9s %-14s %6s %7s %7s %12s %12s %12s %12s %9s %s\n", "op", "part", "kind",
                "steps", "n", "k", "weight B", "kv B", "state B", "mult-adds", "us", "bound");
    for (size_t i = 0; i < plan.ops.size(); ++i) {
      const kernels::Op& op = plan.ops[i];
      const Cost cost = capacity_.CostOfOp(op, options_.sessions, position_);
      const TickTime time = capacity_.TimeOf(cost);
      std::printf("%5zu %-9s %-14s %6d %7d %7d %12.0f %12.0f %12.0f %12.0f %9.2f %s\n", i,
                  kParts[static_cast<size_t>(op.part)], KindName(op.kind), op.steps, op.n, op.k,
                  cost.weight_bytes, cost.kv_bytes, cost.state_bytes, cost.macs, time.total_s * 1e6,
                  BoundName(time.bound()));
    }
    std::printf("\n");
    Tick();
  }

 private:
  void Memory() const {
    const MemoryTable table = capacity_.memory();
    const int n = table.sessions;
    const auto line = [](const char* what, int64_t each, int times) {
      std::printf("  %-22s %10.1f MB x %-4d %10.1f MB\n", what, Mb(double(each)), times,
                  Mb(double(each) * times));
    };
    std::printf("memory, weights %s, kv %s\n", options_.weights.c_str(), options_.kv.c_str());
    line("weights", table.weights, 1);
    line("kv / session", table.kv, n);
    line("codec state / session", table.state, n);
    line("scratch / session", table.scratch, n);
    const double total = double(table.total()), usable = capacity_.machine().usable_bytes();
    std::printf("  %-22s %31.1f MB: ", "total", Mb(total));
    if (total <= usable) {
      std::printf("fits, %.0f MB left\n\n", Mb(usable - total));
      return;
    }
    std::printf("MISSES by %.0f MB\n", Mb(total - usable));
    Savings(table, usable);
    std::printf("\n");
  }

  // What other formats would save, and whether that is enough.
  void Savings(const MemoryTable& table, double usable) const {
    const auto say = [&](const std::string& option, const MemoryTable& other) {
      const double saved = double(table.total() - other.total());
      if (saved <= 0) return;
      std::printf("    %-34s saves %10.0f MB: %s\n", option.c_str(), Mb(saved),
                  double(other.total()) <= usable ? "fits" : "not enough");
    };
    const auto weights = engine::ParseWeightFormat(options_.weights);
    for (const char* format : {"bf16", "int8", "int4"}) {
      say(std::string("--weights ") + format, MemoryOf(plans_, engine::ParseWeightFormat(format)));
    }
    for (const char* format : {"bf16", "int8", "int4"}) {
      say(std::string("--kv ") + format, MemoryOf(PlanOf(checkpoint_, options_, format), weights));
    }
    say("--weights int4 --kv int4",
        MemoryOf(PlanOf(checkpoint_, options_, "int4"), kernels::WeightFormat::kInt4));
    const int fewer = capacity_.SessionsInMemory();
    if (fewer > 0) std::printf("    --sessions %d fits\n", fewer);
  }

  void Tick() const {
    const engine::TickCost costs = capacity_.TickCosts(options_.sessions, position_);
    const auto times = capacity_.TickTimes(options_.sessions, position_);
    std::printf("a tick of %d session(s), %lld frames of context\n", options_.sessions,
                static_cast<long long>(position_ + 1));
    std::printf("  %-9s %10s %10s %10s %12s %6s %9s  %s\n", "part", "weight MB", "kv MB",
                "state MB", "M mult-adds", "ops", "ms", "bound by");
    TickTime sum;
    for (size_t p = 0; p < times.size(); ++p) {
      TickLine(kParts[p], costs.parts[p], times[p]);
      sum += times[p];
    }
    TickLine("total", costs.total(), sum);
    std::printf("\n");
  }

  static void TickLine(const char* name, const Cost& cost, const TickTime& time) {
    std::printf("  %-9s %10.1f %10.1f %10.1f %12.1f %6d %9.2f  %s\n", name, Mb(cost.weight_bytes),
                Mb(cost.kv_bytes), Mb(cost.state_bytes), cost.macs * 1e-6, cost.ops,
                time.total_s * 1e3, cost.ops > 0 ? BoundName(time.bound()) : "");
  }

  void Sessions() const {
    const int in_time = capacity_.SessionsInTime(position_, options_.margin);
    const int in_memory = capacity_.SessionsInMemory();
    const int fit = std::min(in_time, in_memory);
    std::printf("sessions: %d%s", fit, fit == engine::kMaxSessions ? " or more" : "");
    if (fit < engine::kMaxSessions) {
      TickTime sum;
      for (const TickTime& part : capacity_.TickTimes(fit + 1, position_)) sum += part;
      std::printf(", bound by %s", in_memory < in_time ? "memory size" : BoundName(sum.bound()));
    }
    std::printf(" (%d in %.0f of %.0f ms, %d in memory)\n", in_time,
                engine::kTickSeconds * (1 - options_.margin) * 1e3, engine::kTickSeconds * 1e3,
                in_memory);
  }

  void Prefill() const {
    const kernels::Plan* plan = plans_.Prefill();
    if (plan == nullptr) {
      std::printf("prefill: none, the model takes no prompt\n");
      return;
    }
    const TickTime time = capacity_.PrefillTime(position_);
    const double slack = engine::kTickSeconds - capacity_.TickSeconds(options_.sessions, position_);
    std::printf("prefill: %d positions in %.2f ms, bound by %s; ", plan->max_rows,
                time.total_s * 1e3, BoundName(time.bound()));
    if (slack < time.total_s) {
      std::printf("does not fit the slack of a tick (%.1f ms)\n", slack * 1e3);
    } else {
      const double per_tick = static_cast<int>(slack / time.total_s) * plan->max_rows;
      std::printf("%.0f positions in the slack of a tick (%.1f ms)\n", per_tick, slack * 1e3);
    }
  }

  const PlanOptions& options_;
  const Checkpoint& checkpoint_;
  ModelPlans plans_;
  Capacity capacity_;
  int64_t position_ = 0;
};

int RunPlan(const PlanOptions& options) {
  if (options.sessions < 1 || options.sessions > engine::kMaxSessions) {
    throw InputError("sessions: expected 1 to 1024, found " + std::to_string(options.sessions));
  }
  if (!(options.margin >= 0.0 && options.margin < 1.0)) {
    throw InputError("margin: expected 0 to below 1, found " + std::to_string(options.margin));
  }
  const Checkpoint checkpoint = OpenModel(options.model);
  const Report report(options, checkpoint);
  if (options.explain) {
    report.Explain();
  } else {
    report.Print();
  }
  return 0;
}

}  // namespace

void RegisterPlan(CLI::App& app, int* exit_status) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Whether a model fits a machine, what bounds it, how many sessions");
  plan->add_option("MODEL", options->model,
                   "pico, mid, moshi-7b, personaplex-7b, mimi, embedded, a config.json or a folder")
      ->required();
  std::string machines;
  for (const std::string& name : engine::MachineNames()) machines += name + ", ";
  plan->add_option("--machine", options->machine,
                   machines + "or bandwidth=GB/S,memory=GB[,ops=TOPS][,latency=US]")
      ->capture_default_str();
  plan->add_option("--weights", options->weights, "auto, fp32, bf16, int8 or int4")
      ->capture_default_str();
  plan->add_option("--kv", options->kv, "auto, fp32, bf16, int8 or int4")->capture_default_str();
  plan->add_option("--sessions", options->sessions, "Sessions in the tables")
      ->capture_default_str();
  plan->add_option("--margin", options->margin, "Share of the deadline that stays free")
      ->capture_default_str();
  plan->add_flag("--explain", options->explain, "Every operation of the tick and its bound");
  plan->callback([options, exit_status] { *exit_status = RunPlan(*options); });
}

}  // namespace antiphon::cli
