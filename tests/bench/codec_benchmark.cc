// Full-size Mimi with random weights on the cpu executor: ms per 80 ms frame of encode and decode,
// by codebooks, batch and threads, as a live server runs them. With --op_times instead a table of
// where one thread's time goes: every op as a plan of its own, in the order of the frame, so that
// caches are as cold as in a whole run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/mimi_plan.h"
#include "engine/model_shapes.h"
#include "kernels/executor.h"

namespace antiphon::engine {
namespace {

using kernels::Control;
using kernels::Op;
using kernels::OpKind;
using kernels::Plan;
using kernels::Stage;

const Checkpoint& Codec() {
  static const Checkpoint checkpoint = MakeSyntheticCheckpoint(FindModelShape("mimi"));
  return checkpoint;
}

// One plan of the codec, both directions, `batch` sessions.
class CodecRig {
 public:
  CodecRig(int codebooks, int batch, int threads, bool plan_per_op)
      : layout_(batch, batch), rows_(static_cast<size_t>(batch)) {
    PlanBuilder builder(layout_, batch, false);
    const MimiConfig& config = *Codec().mimi_config();
    MimiPlanOptions options;
    options.codebooks = codebooks;
    options.codes_out = options.codes_in = layout_.state.Get("codes", codebooks);
    pcm_ = layout_.io.Get("pcm", config.frame_samples());
    AppendMimiEncode(builder, config, *Codec().mimi(), options, pcm_);
    AppendMimiDecode(builder, config, *Codec().mimi(), options, pcm_);
    plans_.push_back(std::move(builder.plan()));
    if (plan_per_op) SplitPlan();
    std::vector<const Plan*> plans;
    for (const Plan& plan : plans_) plans.push_back(&plan);
    executor_ = kernels::MakeCpuExecutor({kernels::WeightFormat::kF32, threads, true});
    executor_->Prepare(layout_.weights, plans,
                       {layout_.state.total_elements(), layout_.io.total_elements(), {}});
    for (int r = 0; r < batch; ++r) {
      float* pcm = executor_->io() + pcm_.offset + r * pcm_.row_stride;
      for (int i = 0; i < config.frame_samples(); ++i) {
        pcm[i] = 0.3F * static_cast<float>((i * 37 + r * 11) % 101 - 50) / 50.0F;
      }
      rows_[static_cast<size_t>(r)].slot = r;
      rows_[static_cast<size_t>(r)].position = 1000;  // rings are full
    }
  }

  // Runs all plans for the stages asked for.
  void Frame(bool encode, bool decode) {
    Control control = Rows(encode, decode);
    for (const Plan& plan : plans_) executor_->Run(plan, control);
    for (kernels::Row& row : rows_) ++row.position;
  }

  const std::vector<Plan>& plans() const { return plans_; }
  const kernels::WeightTable& weights() const { return layout_.weights; }
  kernels::Executor& executor() { return *executor_; }
  Control Rows(bool encode, bool decode) {
    Control control;
    for (Control::Rows& stage : control.stages) stage.rows = rows_.data();
    const auto count = static_cast<int32_t>(rows_.size());
    if (encode) control.stages[static_cast<int>(Stage::kEncode)].count = count;
    if (decode) control.stages[static_cast<int>(Stage::kDecode)].count = count;
    return control;
  }

 private:
  void SplitPlan() {
    const Plan whole = std::move(plans_.front());
    plans_.clear();
    for (const Op& op : whole.ops) {
      Plan& plan = plans_.emplace_back();
      plan.max_rows = whole.max_rows;
      plan.scratch_elements = whole.scratch_elements;
      plan.ops = {op};
    }
  }

  ModelLayout layout_;
  std::vector<kernels::Row> rows_;
  std::vector<Plan> plans_;
  kernels::Ref pcm_;
  std::unique_ptr<kernels::Executor> executor_;
};

void Run(benchmark::State& state, bool encode, bool decode) {
  const auto codebooks = static_cast<int>(state.range(0));
  const auto batch = static_cast<int>(state.range(1)), threads = static_cast<int>(state.range(2));
  CodecRig rig(codebooks, batch, threads, false);
  for (int i = 0; i < 3; ++i) rig.Frame(encode, decode);
  for (auto _ : state) rig.Frame(encode, decode);
}
void Encode(benchmark::State& state) { Run(state, true, false); }
void Decode(benchmark::State& state) { Run(state, false, true); }
void Both(benchmark::State& state) { Run(state, true, true); }

void Cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"codebooks", "batch", "threads"})->Unit(benchmark::kMillisecond);
  for (const int codebooks : {8, 32}) {
    for (const int batch : {1, 8}) {
      for (const int threads : {1, 2}) benchmark->Args({codebooks, batch, threads});
    }
  }
  benchmark->UseRealTime();
}
BENCHMARK(Encode)->Apply(Cases);
BENCHMARK(Decode)->Apply(Cases);
BENCHMARK(Both)->Apply(Cases);

const char* NameOf(OpKind kind) {
  switch (kind) {
    case OpKind::kLinear:
      return "linear";
    case OpKind::kNorm:
      return "norm";
    case OpKind::kActivation:
      return "activation";
    case OpKind::kWindow:
      return "window";
    case OpKind::kUpsample:
      return "upsample";
    case OpKind::kRopeAppend:
      return "rope, append";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kEmbed:
      return "embed";
    case OpKind::kRvqPick:
      return "rvq pick";
    default:
      return "other";
  }
}

// Ops of the same stage, kind and shape, added up.
void PrintOpTimes(int batch) {
  using Clock = std::chrono::steady_clock;
  constexpr int kFrames = 60;
  CodecRig rig(32, batch, 1, true);
  const Control control = rig.Rows(true, true);
  struct Line {
    double ms = 0.0, gigaflops = 0.0, megabytes = 0.0;
    int ops = 0;
  };
  std::map<std::string, Line> lines;
  for (int frame = -3; frame < kFrames; ++frame) {
    for (const Plan& plan : rig.plans()) {
      const Clock::time_point begin = Clock::now();
      rig.executor().Run(plan, control);
      const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
      if (frame < 0) continue;
      const Op& op = plan.ops.front();
      char name[128];
      std::snprintf(name, sizeof name, "%s %-12s steps %4d n %5d k %5d",
                    op.stage == Stage::kEncode ? "encode" : "decode", NameOf(op.kind), op.steps,
                    op.n, op.k);
      Line& line = lines[name];
      line.ms += took.count() / kFrames;
      if (frame > 0) continue;
      ++line.ops;
      if (op.kind == OpKind::kLinear) {
        line.gigaflops += 2e-9 * batch * op.steps * op.n * op.k;
        line.megabytes += 4e-6 * op.n * op.k;
      }
    }
  }
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  double total = 0.0;
  for (const auto& [name, line] : sorted) {
    total += line.ms;
    std::printf("%-52s x %3d %8.3f ms", name.c_str(), line.ops, line.ms);
    if (line.megabytes > 0.0) {
      std::printf("  %6.1f GFLOP/s  %6.1f GB/s of weights", line.gigaflops / line.ms * 1e3,
                  line.megabytes / line.ms);
    }
    std::printf("\n");
  }
  std::printf("batch %d, 32 codebooks, 1 thread: %.2f ms in all\n", batch, total);
}

}  // namespace
}  // namespace antiphon::engine

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--op_times") == 0) {
    antiphon::engine::PrintOpTimes(1);
    antiphon::engine::PrintOpTimes(8);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
