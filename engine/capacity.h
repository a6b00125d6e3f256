// What a model needs of a machine before either is bought or loaded: memory by kind, the time of a
// tick by what bounds it, and how many sessions come out. Works on plans alone.
#pragma once

#include <array>
#include <cstdint>

#include "engine/machine.h"
#include "engine/model_plans.h"
#include "engine/roofline.h"
#include "kernels/executor.h"

namespace antiphon::engine {

inline constexpr double kTickSeconds = 0.080;
inline constexpr int kMaxSessions = 1024;

// Bytes in the cpu executor's packing.
struct MemoryTable {
  int sessions = 0;
  int64_t weights = 0;
  int64_t kv = 0;       // per session
  int64_t state = 0;    // per session: codec history, token grid
  int64_t scratch = 0;  // per session: activations and frames

  int64_t per_session() const { return kv + state + scratch; }
  int64_t total() const { return weights + sessions * per_session(); }
};
MemoryTable MemoryOf(const ModelPlans& plans, kernels::WeightFormat format);

// What the time of an operation, a part or a tick is spent on most.
enum class Bound : uint8_t { kBandwidth, kCompute, kChain };

struct TickTime {
  double bandwidth_s = 0, compute_s = 0, chain_s = 0;  // each of its own
  double total_s = 0;  // sum over operations of the larger of the first two, and the chain
  Bound bound() const;
  TickTime& operator+=(const TickTime& other);
};

// A model, its weights' format and a machine, ready to be asked.
class Capacity {
 public:
  // `plans` must outlive it.
  Capacity(const ModelPlans& plans, kernels::WeightFormat format, Machine machine);

  const Machine& machine() const { return machine_; }
  MemoryTable memory() const { return MemoryOf(plans_, format_); }

  Cost CostOfOp(const kernels::Op& op, int rows, int64_t position) const;
  TickTime TimeOf(const Cost& cost) const;

  // A tick of `sessions` sessions that are all `position` frames old, by kernels::Part.
  TickCost TickCosts(int sessions, int64_t position) const;
  std::array<TickTime, kernels::kParts> TickTimes(int sessions, int64_t position) const;
  double TickSeconds(int sessions, int64_t position) const;
  // One run of prefill at `position`; zeros where the model has no prefill plan.
  Cost PrefillCost(int64_t position) const;
  TickTime PrefillTime(int64_t position) const;

  // Sessions, at most kMaxSessions, whose tick leaves `margin` of the deadline free; whose memory
  // fits beside the weights.
  int SessionsInTime(int64_t position, double margin) const;
  int SessionsInMemory() const;

 private:
  const kernels::Plan& AnyTick() const { return plans_.plans.front(); }
  const ModelPlans& plans_;
  kernels::WeightFormat format_;
  Machine machine_;
};

}  // namespace antiphon::engine
