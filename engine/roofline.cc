#include "engine/roofline.h"

#include <algorithm>

#include "kernels/arena_view.h"
#include "kernels/cpu/kv_layout.h"

namespace antiphon::engine {

using kernels::KvFormat;
using kernels::KvShape;
using kernels::Op;
using kernels::OpKind;

namespace {

constexpr double kFloat = 4.0;

// Keys and values of one layer that a query sees in the paged cache.
double PagedBytes(const Op& op, const KvShape& kv, int64_t position) {
  kernels::Row row;
  row.position = position;
  const kernels::Window window = kernels::VisiblePositions(op, position, 0);
  const double layers = kv.layers;
  const double page = static_cast<double>(KvPageBytes(kv, kv.format)) / layers;
  const double whole = static_cast<double>(window.end - window.begin);
  if (kv.format != KvFormat::kInt4) return whole / kernels::kKvPage * page;
  // Of the window, the newest positions and the prompt's are int8 still.
  double packed = 0;
  for (int64_t p = window.begin; p < window.end; p += kernels::kKvPage) {
    const int64_t end =
        std::min<int64_t>((p / kernels::kKvPage + 1) * kernels::kKvPage, window.end);
    const int64_t begin = std::max(p / kernels::kKvPage * kernels::kKvPage, window.begin);
    if (kernels::IsSealed(kv, op.kv_layer, p / kernels::kKvPage, position)) {
      packed += static_cast<double>(end - begin);
    }
  }
  packed = std::min(packed, whole);
  const double int8_page = static_cast<double>(KvPageBytes(kv, KvFormat::kInt8)) / layers;
  return (packed * page + (whole - packed) * int8_page) / kernels::kKvPage;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  state_bytes += other.state_bytes;
  macs += other.macs;
  ops += other.ops;
  return *this;
}

Cost TickCost::total() const {
  Cost sum;
  for (const Cost& part : parts) sum += part;
  return sum;
}

Cost CostOf(const Op& op, const kernels::WeightTable& weights, const WeightBytes& weight_bytes,
            const KvShape& kv, int rows, int64_t position) {
  Cost cost;
  cost.ops = 1;
  const double outputs = double{op.steps * 1.0} * op.n * rows;
  const auto whole = [&](int32_t weight) {
    return weight == kernels::kNoWeight ? 0.0 : static_cast<double>(weight_bytes(weight));
  };
  cost.weight_bytes = whole(op.bias) + whole(op.scale);
  switch (op.kind) {
    case OpKind::kLinear:
      cost.weight_bytes += whole(op.weight);
      cost.macs = outputs * op.k;
      cost.state_bytes = kFloat * (outputs + double{op.steps * 1.0} * op.k * rows);
      break;
    case OpKind::kEmbed:
      for (int32_t table = 0; table < op.count; ++table) {
        const auto& spec = weights.specs()[static_cast<size_t>(op.weight + table)];
        cost.weight_bytes += whole(op.weight + table) / static_cast<double>(spec.rows) * rows;
      }
      cost.state_bytes = kFloat * outputs;
      break;
    case OpKind::kRvqPick:
      cost.weight_bytes +=
          kFloat * op.k * rows;  // the row that is subtracted; the scores are a linear op's
      cost.state_bytes = kFloat * rows * op.n;
      break;
    case OpKind::kAttention: {
      const double width = double{op.heads * 1.0} * op.head_dim;
      if (op.kv_layer >= 0) {
        const kernels::Window window = kernels::VisiblePositions(op, position, 0);
        const auto seen = static_cast<double>(window.end - window.begin);
        cost.kv_bytes = PagedBytes(op, kv, position) * rows;
        cost.macs = 2 * seen * width * rows;
      } else {
        const double seen = op.fixed_position
                                ? op.index + 1
                                : std::min<double>(op.context > 0 ? op.context : op.capacity,
                                                   static_cast<double>(position + 1) * op.steps);
        cost.macs = 2 * seen * width * op.steps * rows;
        cost.state_bytes = 2 * kFloat * seen * op.kv_heads * op.head_dim * rows;
      }
      break;
    }
    case OpKind::kUpsample:
      cost.weight_bytes += whole(op.weight);
      cost.macs = outputs * op.k;
      cost.state_bytes = kFloat * outputs;
      break;
    default:
      cost.weight_bytes += whole(op.weight);
      cost.state_bytes = kFloat * outputs;
      break;
  }
  return cost;
}

TickCost CostOf(const kernels::Plan& plan, const kernels::WeightTable& weights,
                const WeightBytes& weight_bytes, const KvShape& kv, int rows, int64_t position) {
  TickCost tick;
  for (const Op& op : plan.ops) {
    tick.parts[static_cast<size_t>(op.part)] +=
        CostOf(op, weights, weight_bytes, kv, rows, position);
  }
  return tick;
}

int64_t KvPageBytes(const KvShape& kv, KvFormat format) {
  const kernels::cpu::KvLayout layout(kv.head_dim);
  constexpr int64_t kLine = 64;
  const auto rounded = [](int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
  return int64_t{kv.layers} * kv.kv_heads *
         (rounded(layout.key_bytes(format)) + rounded(layout.value_bytes(format)));
}

int64_t KvSessionBytes(const KvShape& kv) {
  const int64_t ring = kv.slot_pages * KvPageBytes(kv, kv.format);
  if (kv.format != KvFormat::kInt4) return ring;
  return ring + (kv.prompt_pages + kernels::kRecentPages) * KvPageBytes(kv, KvFormat::kInt8);
}

}  // namespace antiphon::engine
