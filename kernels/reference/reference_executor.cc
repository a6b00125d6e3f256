#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/executor.h"
#include "kernels/reference/reference_ops.h"

namespace antiphon::kernels {
namespace {

class ReferenceExecutor final : public Executor {
 public:
  std::string_view name() const override { return "reference"; }

  void Prepare(const WeightTable& weights, const std::vector<const Plan*>& plans,
               const ArenaSizes& sizes) override {
    for (const WeightSpec& spec : weights.specs()) {
      reference::Weights::Entry& entry = weights_.entries.emplace_back();
      entry.rows = spec.rows;
      entry.cols = spec.cols;
      entry.data.resize(static_cast<size_t>(spec.rows * spec.cols));
      spec.read(0, spec.rows, entry.data.data());
    }
    int64_t scratch = 0;
    int32_t widest = 1;
    for (const Plan* plan : plans) {
      scratch = std::max(scratch, plan->scratch_elements);
      for (const Op& op : plan->ops) {
        if (op.kind == OpKind::kSample) widest = std::max(widest, op.n);
      }
    }
    scratch_.resize(static_cast<size_t>(scratch));
    state_.resize(static_cast<size_t>(sizes.state));
    io_.resize(static_cast<size_t>(sizes.io));
    candidates_.resize(static_cast<size_t>(widest));
    kv_ = reference::KvStore(sizes.kv);
  }

  float* state() override { return state_.data(); }
  float* io() override { return io_.data(); }
  const float* scratch() const override { return scratch_.data(); }

  void Run(const Plan& plan, const Control& control) noexcept override {
    const ArenaView arenas{{scratch_.data(), state_.data(), io_.data()}};
    const reference::Run run{plan, weights_, arenas, control, kv_, candidates_.data()};
    for (const Op& op : plan.ops) reference::RunOp(run, op);
  }

  int64_t weight_bytes() const override {
    int64_t bytes = 0;
    for (const auto& entry : weights_.entries) {
      bytes += static_cast<int64_t>(entry.data.size() * sizeof(float));
    }
    return bytes;
  }

  int64_t kv_page_bytes() const override {
    return static_cast<int64_t>(kv_.page_elements() * sizeof(float));
  }
  void ReadKvPage(int32_t page, std::byte* out) const noexcept override {
    std::memcpy(out, kv_.page(page), kv_.page_elements() * sizeof(float));
  }
  void WriteKvPage(int32_t page, const std::byte* in) noexcept override {
    std::memcpy(kv_.page(page), in, kv_.page_elements() * sizeof(float));
  }
  int64_t kv_bytes() const override { return static_cast<int64_t>(kv_.elements() * sizeof(float)); }

 private:
  reference::Weights weights_;
  std::vector<float> scratch_, state_, io_;
  std::vector<Candidate> candidates_;
  reference::KvStore kv_;
};

}  // namespace

std::unique_ptr<Executor> MakeReferenceExecutor() { return std::make_unique<ReferenceExecutor>(); }

}  // namespace antiphon::kernels
