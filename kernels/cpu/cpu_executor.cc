// The cpu executor: a team of pinned workers walks the op list in step.
//
// What is shared and what one worker does alone is decided when the plans arrive: an op is cut
// among the workers if its work for a full bucket outweighs a barrier, neighbouring small ops are
// done by the first worker without one. A run is then a list of segments with a barrier between
// them.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/worker_pool.h"
#include "kernels/executor.h"

namespace antiphon::kernels {
namespace {

// Multiply-adds below which a barrier (about half a microsecond) costs more than a second worker
// saves.
constexpr int64_t kWorthSharing = 32768;

// Elements of an op's input from which on quantizing it together, with a barrier after it, beats
// every worker quantizing all of it.
constexpr int64_t kWorthQuantizingTogether = 16384;

struct Segment {
  size_t begin = 0, end = 0;  // ops
  bool shared = false;
  Part part{};
};

struct CompiledPlan {
  const Plan* plan = nullptr;
  std::vector<Segment> segments;
};

CompiledPlan Compile(const Plan& plan, int workers) {
  CompiledPlan compiled;
  compiled.plan = &plan;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const bool shared = workers > 1 && cpu::OpCost(plan.ops[i]) * plan.max_rows >= kWorthSharing;
    if (!shared && !compiled.segments.empty() && !compiled.segments.back().shared &&
        compiled.segments.back().part == plan.ops[i].part) {
      compiled.segments.back().end = i + 1;
    } else {
      compiled.segments.push_back({i, i + 1, shared, plan.ops[i].part});
    }
  }
  return compiled;
}

// Adds the time between changes of part to their sums; reading the clock is no system call.
class PartClock {
 public:
  explicit PartClock(std::array<int64_t, kParts>* sums) : sums_(sums) {}
  ~PartClock() { Charge(); }
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;
  void Enter(Part part) {
    if (sums_ == nullptr || (running_ && part == part_)) return;
    Charge();
    running_ = true;
    part_ = part;
  }

 private:
  void Charge() {
    if (sums_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    if (running_) (*sums_)[static_cast<size_t>(part_)] += (now - since_).count();
    since_ = now;
  }
  std::array<int64_t, kParts>* sums_;
  std::chrono::steady_clock::time_point since_;
  Part part_{};
  bool running_ = false;
};

int WorkersFor(int requested) {
  if (requested > 0) return requested;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(const CpuExecutorOptions& options)
      : format_(options.weights),
        pool_(WorkersFor(options.threads), options.pin, [this](int worker) { Work(worker); }) {}

  std::string_view name() const override { return "cpu"; }

  void Prepare(const WeightTable& weights, const std::vector<const Plan*>& plans,
               const ArenaSizes& sizes) override {
    weights_.Pack(weights, format_);
    size_t scratch = 0, longest = 1, widest = 1;
    int64_t quantized = 0;
    for (const Plan* plan : plans) {
      scratch = std::max(scratch, static_cast<size_t>(plan->scratch_elements));
      for (const Op& op : plan->ops) {
        if (op.kind == OpKind::kSample) widest = std::max(widest, static_cast<size_t>(op.n));
        if (cpu::IsQuantized(weights_, op)) {
          quantized =
              std::max(quantized, cpu::QuantizedRows::Bytes(int64_t{plan->max_rows} * op.steps,
                                                            cpu::QuantBlocks(op.k)));
        }
        if (op.kind == OpKind::kAttention) {
          longest = std::max(longest, static_cast<size_t>(op.capacity));
        }
      }
      plans_.push_back(Compile(*plan, pool_.workers()));
    }
    longest = std::max(longest, static_cast<size_t>(sizes.kv.slot_pages) * kKvPage);
    kv_ = cpu::KvMemory(sizes.kv);
    scratch_ = cpu::AlignedBlock(scratch * sizeof(float));
    state_ = cpu::AlignedBlock(static_cast<size_t>(sizes.state) * sizeof(float));
    io_ = cpu::AlignedBlock(static_cast<size_t>(sizes.io) * sizeof(float));
    together_ = cpu::AlignedBlock(static_cast<size_t>(quantized));
    for (int worker = 0; worker < pool_.workers(); ++worker) {
      inputs_.emplace_back(static_cast<size_t>(quantized));
      scores_.emplace_back(longest * sizeof(float));
      chunks_.emplace_back(static_cast<size_t>(sizes.kv.slot_pages) * sizeof(cpu::KvChunk));
      candidates_.emplace_back(widest * sizeof(Candidate));
    }
  }

  float* state() override { return state_.floats(); }
  float* io() override { return io_.floats(); }
  const float* scratch() const override {
    return const_cast<cpu::AlignedBlock&>(scratch_).floats();
  }

  void Run(const Plan& plan, const Control& control) noexcept override {
    const auto found = std::find_if(plans_.begin(), plans_.end(),
                                    [&](const CompiledPlan& p) { return p.plan == &plan; });
    running_ = &*found;
    control_ = &control;
    part_ns_.fill(0);
    pool_.Run();
  }

  int64_t weight_bytes() const override { return weights_.bytes(); }

  std::array<int64_t, kParts> part_ns() const override { return part_ns_; }

  int64_t kv_page_bytes() const override { return kv_.page_bytes(); }
  void ReadKvPage(int32_t page, std::byte* out) const noexcept override { kv_.ReadPage(page, out); }
  void WriteKvPage(int32_t page, const std::byte* in) noexcept override { kv_.WritePage(page, in); }
  int64_t kv_bytes() const override { return kv_.bytes(); }

 private:
  void Work(int worker) noexcept {
    const CompiledPlan& compiled = *running_;
    const ArenaView arenas{{scratch_.floats(), state_.floats(), io_.floats()}};
    const cpu::Run run{*compiled.plan, weights_, arenas, *control_, kv_};
    const auto own = static_cast<size_t>(worker);
    cpu::WorkerScratch memory;
    memory.scores = scores_[own].floats();
    memory.chunks = reinterpret_cast<cpu::KvChunk*>(chunks_[own].data());
    memory.candidates = reinterpret_cast<Candidate*>(candidates_[own].data());
    const int workers = pool_.workers();
    PartClock clock(worker == 0 ? &part_ns_ : nullptr);
    for (size_t s = 0; s < compiled.segments.size(); ++s) {
      const Segment& segment = compiled.segments[s];
      // Stages without rows this tick are skipped by all alike.
      const bool idle =
          control_->stages[static_cast<int>(compiled.plan->ops[segment.begin].stage)].count == 0;
      if (idle && segment.shared) continue;
      if (s > 0) pool_.Meet();
      clock.Enter(segment.part);
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const Op& op = compiled.plan->ops[i];
        if (!segment.shared && worker != 0) continue;
        if (cpu::IsQuantized(weights_, op)) {
          memory.input = QuantizedInput(run, op, segment.shared ? worker : 0,
                                        segment.shared ? workers : 1, own);
        }
        cpu::RunOp(run, op, segment.shared ? worker : 0, segment.shared ? workers : 1, memory);
      }
    }
  }

  // The op's input, quantized: by all workers together where that is worth a barrier, else by each
  // for itself.
  cpu::QuantizedRows QuantizedInput(const cpu::Run& run, const Op& op, int part, int parts,
                                    size_t worker) noexcept {
    const int64_t rows = int64_t{control_->stages[static_cast<int>(op.stage)].count} * op.steps;
    const bool together = parts > 1 && rows * op.k >= kWorthQuantizingTogether;
    const cpu::QuantizedRows input = cpu::QuantizedRows(
        together ? together_.data() : inputs_[worker].data(), rows, cpu::QuantBlocks(op.k));
    cpu::QuantizeInput(run, op, together ? part : 0, together ? parts : 1, input);
    if (together) pool_.Meet();
    return input;
  }

  // Given to us.
  const WeightFormat format_;
  // Owned by us.
  cpu::PackedWeights weights_;
  std::vector<CompiledPlan> plans_;
  cpu::KvMemory kv_;
  cpu::AlignedBlock scratch_, state_, io_;
  std::vector<cpu::AlignedBlock> scores_, chunks_, inputs_, candidates_;  // by worker
  cpu::AlignedBlock together_;  // a quantized input of all workers
  // State of the run in progress.
  const CompiledPlan* running_ = nullptr;
  const Control* control_ = nullptr;
  std::array<int64_t, kParts> part_ns_{};
  // Last, so that its threads end first.
  cpu::WorkerPool pool_;
};

}  // namespace

std::unique_ptr<Executor> MakeCpuExecutor(const CpuExecutorOptions& options) {
  return std::make_unique<CpuExecutor>(options);
}

}  // namespace antiphon::kernels
