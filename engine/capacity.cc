#include "engine/capacity.h"

#include <algorithm>
#include <utility>

namespace antiphon::engine {

using kernels::Op;

namespace {

// Weights begin on cache lines.
int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

MemoryTable MemoryOf(const ModelPlans& plans, kernels::WeightFormat format) {
  constexpr int64_t kElement = 4;
  MemoryTable table;
  table.sessions = plans.options.slots;
  for (const kernels::WeightSpec& spec : plans.layout->weights.specs()) {
    table.weights += Aligned(kernels::CpuPackedBytes(spec, format));
  }
  if (plans.kv.layers > 0) table.kv = KvSessionBytes(plans.kv);
  const int64_t sessions = table.sessions;
  table.state = kElement * plans.layout->state.total_elements() / sessions;
  int64_t scratch = plans.layout->io.total_elements();
  int64_t largest = 0;
  for (const kernels::Plan& plan : plans.plans) {
    largest = std::max(largest, plan.scratch_elements);
  }
  scratch += largest;
  table.scratch = kElement * scratch / sessions;
  return table;
}

Bound TickTime::bound() const {
  if (chain_s >= std::max(bandwidth_s, compute_s)) return Bound::kChain;
  return bandwidth_s >= compute_s ? Bound::kBandwidth : Bound::kCompute;
}

TickTime& TickTime::operator+=(const TickTime& other) {
  bandwidth_s += other.bandwidth_s;
  compute_s += other.compute_s;
  chain_s += other.chain_s;
  total_s += other.total_s;
  return *this;
}

Capacity::Capacity(const ModelPlans& plans, kernels::WeightFormat format, Machine machine)
    : plans_(plans), format_(format), machine_(std::move(machine)) {}

Cost Capacity::CostOfOp(const Op& op, int rows, int64_t position) const {
  const kernels::WeightTable& weights = plans_.layout->weights;
  const auto bytes = [&](int32_t weight) {
    return kernels::CpuPackedBytes(weights.specs()[static_cast<size_t>(weight)], format_);
  };
  return CostOf(op, weights, bytes, plans_.kv, rows, position);
}

TickTime Capacity::TimeOf(const Cost& cost) const {
  TickTime time;
  time.bandwidth_s = cost.memory_bytes() / machine_.bandwidth;
  time.compute_s = machine_.macs > 0 ? cost.macs / machine_.macs : 0.0;
  time.chain_s = cost.ops * machine_.op_s;
  time.total_s = std::max(time.bandwidth_s, time.compute_s) + time.chain_s;
  return time;
}

TickCost Capacity::TickCosts(int sessions, int64_t position) const {
  TickCost tick;
  for (const Op& op : AnyTick().ops) {
    tick.parts[static_cast<size_t>(op.part)] += CostOfOp(op, sessions, position);
  }
  return tick;
}

std::array<TickTime, kernels::kParts> Capacity::TickTimes(int sessions, int64_t position) const {
  std::array<TickTime, kernels::kParts> parts = {};
  for (const Op& op : AnyTick().ops) {
    parts[static_cast<size_t>(op.part)] += TimeOf(CostOfOp(op, sessions, position));
  }
  return parts;
}

double Capacity::TickSeconds(int sessions, int64_t position) const {
  TickTime sum;
  for (const TickTime& part : TickTimes(sessions, position)) sum += part;
  return sum.total_s;
}

Cost Capacity::PrefillCost(int64_t position) const {
  Cost cost;
  const kernels::Plan* plan = plans_.Prefill();
  if (plan == nullptr) return cost;
  for (const Op& op : plan->ops) cost += CostOfOp(op, plan->max_rows, position);
  return cost;
}

TickTime Capacity::PrefillTime(int64_t position) const {
  TickTime time;
  const kernels::Plan* plan = plans_.Prefill();
  if (plan == nullptr) return time;
  for (const Op& op : plan->ops) time += TimeOf(CostOfOp(op, plan->max_rows, position));
  return time;
}

int Capacity::SessionsInTime(int64_t position, double margin) const {
  const double allowed = kTickSeconds * (1.0 - margin);
  int fits = 0, misses = kMaxSessions + 1;
  while (misses - fits > 1) {
    const int middle = (fits + misses) / 2;
    (TickSeconds(middle, position) <= allowed ? fits : misses) = middle;
  }
  return fits;
}

int Capacity::SessionsInMemory() const {
  const MemoryTable table = memory();
  const double left = machine_.usable_bytes() - static_cast<double>(table.weights);
  if (left <= 0) return 0;
  return static_cast<int>(
      std::min<double>(kMaxSessions, left / static_cast<double>(table.per_session())));
}

}  // namespace antiphon::engine
