// What a tick must move and compute, read off its plan: the floor that benchmarks are held against
// and capacity is planned from.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "kernels/plan.h"

namespace antiphon::engine {

struct Cost {
  double weight_bytes = 0;  // each weight once, whatever the rows
  double kv_bytes = 0;      // keys and values that the rows' queries see
  double state_bytes = 0;   // activations, windows, rings of the codec and the depth transformer
  double macs = 0;          // multiply-adds
  int ops = 0;
  // What must come from memory; activations stay in caches.
  double memory_bytes() const { return weight_bytes + kv_bytes; }
  Cost& operator+=(const Cost& other);
};

struct TickCost {
  std::array<Cost, kernels::kParts> parts;  // by kernels::Part
  Cost total() const;
};

// Bytes of a weight in the format that it is kept in.
using WeightBytes = std::function<int64_t(int32_t weight)>;

// Cost of one op for `rows` rows whose sessions are `position` frames old.
Cost CostOf(const kernels::Op& op, const kernels::WeightTable& weights,
            const WeightBytes& weight_bytes, const kernels::KvShape& kv, int rows,
            int64_t position);
// Of all ops of a plan.
TickCost CostOf(const kernels::Plan& plan, const kernels::WeightTable& weights,
                const WeightBytes& weight_bytes, const kernels::KvShape& kv, int rows,
                int64_t position);

// Bytes of one page in the pool, all layers and heads, and of an int8 page (int4's newest).
int64_t KvPageBytes(const kernels::KvShape& kv, kernels::KvFormat format);
// Bytes that one session's ring takes, int4's int8 pages included.
int64_t KvSessionBytes(const kernels::KvShape& kv);

}  // namespace antiphon::engine
