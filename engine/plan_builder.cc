#include "engine/plan_builder.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace antiphon::engine {

using kernels::Arena;
using kernels::Op;
using kernels::OpKind;
using kernels::Ref;
using kernels::WeightKind;
using kernels::WeightSpec;

namespace {

// Blocks start on a cache line.
constexpr int64_t kAlignElements = 16;
int64_t Aligned(int64_t elements) {
  return (elements + kAlignElements - 1) / kAlignElements * kAlignElements;
}

bool FitsBf16(const TensorView& tensor) { return tensor.dtype == Dtype::kBf16; }

WeightSpec RowsOf(const std::string& name, WeightKind kind, const TensorView& tensor, int64_t rows,
                  int64_t cols, int64_t row_begin) {
  WeightSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.rows = rows;
  spec.cols = cols;
  spec.bf16 = FitsBf16(tensor);
  spec.read = [tensor, cols, row_begin](int64_t begin, int64_t count, float* out) {
    ReadFloats(tensor, (row_begin + begin) * cols, count * cols, out);
  };
  return spec;
}

}  // namespace

Ref BlockTable::Get(const std::string& name, int64_t elements) {
  const auto [it, is_new] = refs_.try_emplace(name);
  if (is_new) {
    const int64_t stride = Aligned(elements);
    it->second = Ref{arena_, per_slot_, total_, stride};
    total_ += stride * blocks_;
  }
  return it->second;
}

PlanBuilder::PlanBuilder(ModelLayout& layout, int max_rows, bool taps)
    : layout_(layout), taps_(taps) {
  plan_.max_rows = max_rows;
}

View PlanBuilder::Scratch(int32_t steps, int32_t width) {
  View view;
  view.steps = steps;
  view.width = width;
  view.step = width;
  const int64_t stride = Aligned(int64_t{steps} * width);
  const int64_t elements = stride * plan_.max_rows;
  view.ref = Ref{Arena::kScratch, false, plan_.scratch_elements, stride};
  // First fit among the holes, else at the end.
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [&](const Hole& h) { return h.elements >= elements; });
  if (hole == holes_.end()) {
    plan_.scratch_elements += elements;
    return view;
  }
  view.ref.offset = hole->offset;
  hole->offset += elements;
  hole->elements -= elements;
  if (hole->elements == 0) holes_.erase(hole);
  return view;
}

void PlanBuilder::Free(const View& view) {
  if (taps_) return;
  const int64_t elements = view.ref.row_stride * plan_.max_rows;
  auto next = std::find_if(holes_.begin(), holes_.end(),
                           [&](const Hole& h) { return h.offset > view.ref.offset; });
  auto hole = holes_.insert(next, Hole{view.ref.offset, elements});
  if (hole + 1 != holes_.end() && hole->offset + hole->elements == (hole + 1)->offset) {
    hole->elements += (hole + 1)->elements;
    holes_.erase(hole + 1);
  }
  if (hole != holes_.begin() && (hole - 1)->offset + (hole - 1)->elements == hole->offset) {
    (hole - 1)->elements += hole->elements;
    holes_.erase(hole);
  }
}

View PlanBuilder::Slice(const View& view, int32_t begin, int32_t width) {
  View part = view;
  part.ref.offset += begin;
  part.width = width;
  return part;
}

void PlanBuilder::Tap(const std::string& name, const View& view) {
  if (taps_) plan_.taps[name] = {view.ref, view.steps, view.width, view.step};
}

void PlanBuilder::TapCopy(const std::string& name, const View& view) {
  if (!taps_) return;
  const View copy = Scratch(view.steps, view.width);
  Copy(view, copy);
  Tap(name, copy);
}

int32_t PlanBuilder::Matrix(const std::string& name, const TensorView& tensor, int64_t rows,
                            int64_t cols, int64_t row_begin) {
  return Add(RowsOf(name, WeightKind::kMatrix, tensor, rows, cols, row_begin));
}

int32_t PlanBuilder::Table(const std::string& name, const TensorView& tensor, int64_t rows,
                           int64_t cols) {
  return Add(RowsOf(name, WeightKind::kTable, tensor, rows, cols, 0));
}

int32_t PlanBuilder::Vector(const std::string& name, const TensorView& tensor) {
  return Add(RowsOf(name, WeightKind::kVector, tensor, 1, tensor.elements(), 0));
}

int32_t PlanBuilder::Vector(const std::string& name, std::vector<float> values) {
  WeightSpec spec;
  spec.name = name;
  spec.kind = WeightKind::kVector;
  spec.rows = 1;
  spec.cols = static_cast<int64_t>(values.size());
  const auto shared = std::make_shared<std::vector<float>>(std::move(values));
  spec.read = [shared](int64_t, int64_t, float* out) {
    std::copy(shared->begin(), shared->end(), out);
  };
  return Add(std::move(spec));
}

Op& PlanBuilder::Append(OpKind kind, const View& in, const View& out) {
  Op& op = plan_.ops.emplace_back();
  op.kind = kind;
  op.stage = stage_;
  op.part = part_;
  op.in = in.ref;
  op.in_step = in.step;
  op.out = out.ref;
  op.out_step = out.step;
  op.steps = out.steps;
  op.n = out.width;
  return op;
}

Op& PlanBuilder::Linear(const View& in, const View& out, int32_t weight) {
  Op& op = Append(OpKind::kLinear, in, out);
  op.k = in.width;
  op.weight = weight;
  return op;
}

Op& PlanBuilder::Copy(const View& in, const View& out) {
  return Append(OpKind::kActivation, in, out);
}

NormWeights AddNorm(PlanBuilder& builder, const SafeTensors& tensors, const std::string& prefix,
                    NormKind kind, int dim) {
  NormWeights norm;
  norm.eps = NormEps(kind);
  if (IsLayerNorm(kind)) {
    norm.kind = kernels::Norm::kLayer;
    norm.weight = builder.Vector(prefix + ".weight", tensors.Get(prefix + ".weight", {dim}));
    norm.bias = builder.Vector(prefix + ".bias", tensors.Get(prefix + ".bias", {dim}));
  } else {
    norm.weight = builder.Vector(prefix + ".alpha", tensors.Get(prefix + ".alpha", {1, 1, dim}));
  }
  return norm;
}

void AppendNorm(PlanBuilder& builder, const NormWeights& norm, const View& in, const View& out) {
  Op& op = builder.Append(OpKind::kNorm, in, out);
  op.norm = norm.kind;
  op.eps = norm.eps;
  op.weight = norm.weight;
  op.bias = norm.bias;
}

}  // namespace antiphon::engine
