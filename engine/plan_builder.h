// Writes plans: allocates scratch by liveness, names weights, state and frame buffers, and appends
// ops. The parts of the model (mimi_plan, temporal_plan, depth_plan) are written on top of it.
//
// Start-up only, one thread. Errors are InputError.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "engine/safetensors.h"
#include "kernels/plan.h"

namespace antiphon::engine {

// Named blocks of an arena that all plans of a model share; a name is laid out once.
class BlockTable {
 public:
  // `arena` blocks of `elements` for each of `blocks` slots (per_slot) or rows.
  BlockTable(kernels::Arena arena, bool per_slot, int64_t blocks)
      : arena_(arena), per_slot_(per_slot), blocks_(blocks) {}
  kernels::Ref Get(const std::string& name, int64_t elements);
  int64_t total_elements() const { return total_; }

 private:
  kernels::Arena arena_;
  bool per_slot_;
  int64_t blocks_;
  int64_t total_ = 0;
  std::map<std::string, kernels::Ref> refs_;
};

// Which positions a query of a transformer sees (tests/golden/ARCHITECTURE.md).
enum class AttentionWindow : uint8_t {
  kStreaming,   // 1.2: queries of a call share the lower bound; what a live server does
  kDropOldest,  // 4.2: as kStreaming, and a full ring hides its oldest entry (PersonaPlex's code)
  kOneShot,     // 1.2: a bound per query; a non-streaming evaluation of a whole recording
};

// What all plans of a model have in common.
struct ModelLayout {
  kernels::WeightTable weights;
  BlockTable state;
  BlockTable io;
  ModelLayout(int slots, int max_rows)
      : state(kernels::Arena::kState, true, slots), io(kernels::Arena::kIo, false, max_rows) {}
};

// Activations [row, steps, width]; consecutive steps are `step` elements apart.
struct View {
  kernels::Ref ref;
  int32_t steps = 1;
  int32_t width = 0;
  int64_t step = 0;
};

class PlanBuilder {
 public:
  PlanBuilder(ModelLayout& layout, int max_rows, bool taps);

  ModelLayout& layout() { return layout_; }
  kernels::Plan& plan() { return plan_; }
  int max_rows() const { return plan_.max_rows; }
  void set_stage(kernels::Stage stage, kernels::Part part) {
    stage_ = stage;
    part_ = part;
  }
  void set_part(kernels::Part part) { part_ = part; }

  // A fresh block of scratch for every row, dense in steps; Free gives it back for later ops (with
  // taps nothing is given back, so that every intermediate survives the run).
  View Scratch(int32_t steps, int32_t width);
  void Free(const View& view);
  // Part of every step: channels [begin, begin + width).
  static View Slice(const View& view, int32_t begin, int32_t width);
  // Names a view for checks; TapCopy names a copy, for views that later ops change in place.
  void Tap(const std::string& name, const View& view);
  void TapCopy(const std::string& name, const View& view);

  // Weights from a tensor. Matrix and Table read rows [row_begin, row_begin + rows) of a [*, cols]
  // tensor; Vector reads all of it.
  int32_t Matrix(const std::string& name, const TensorView& tensor, int64_t rows, int64_t cols,
                 int64_t row_begin = 0);
  int32_t Table(const std::string& name, const TensorView& tensor, int64_t rows, int64_t cols);
  int32_t Vector(const std::string& name, const TensorView& tensor);
  int32_t Vector(const std::string& name, std::vector<float> values);
  int32_t Add(kernels::WeightSpec spec) {
    spec.keep = keep_;
    return layout_.weights.Add(std::move(spec));
  }
  // Matrices added from now on are not quantized: the codec's. They are a hundredth of a 7B model's
  // bytes, and their errors are heard directly.
  void set_keep(bool keep) { keep_ = keep; }

  // Appends an op of the current stage and returns it for the rest of its fields.
  kernels::Op& Append(kernels::OpKind kind, const View& in, const View& out);
  kernels::Op& Linear(const View& in, const View& out, int32_t weight);
  kernels::Op& Copy(const View& in, const View& out);

 private:
  struct Hole {
    int64_t offset, elements;
  };
  ModelLayout& layout_;
  kernels::Plan plan_;
  bool taps_;
  bool keep_ = false;
  kernels::Stage stage_ = kernels::Stage::kStep;
  kernels::Part part_ = kernels::Part::kTemporal;
  std::vector<Hole> holes_;  // by offset
};

// Norm weights by kind: alpha for RMS norms, weight and bias for layer norms.
struct NormWeights {
  kernels::Norm kind = kernels::Norm::kRms;
  float eps = 0.0F;
  int32_t weight = kernels::kNoWeight;
  int32_t bias = kernels::kNoWeight;
};
NormWeights AddNorm(PlanBuilder& builder, const SafeTensors& tensors, const std::string& prefix,
                    NormKind kind, int dim);
void AppendNorm(PlanBuilder& builder, const NormWeights& norm, const View& in, const View& out);

}  // namespace antiphon::engine
