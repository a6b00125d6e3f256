#include "engine/model_plans.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"
#include "engine/lm_plan.h"
#include "engine/mimi_plan.h"

namespace antiphon::engine {

using kernels::Plan;

namespace {

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ModelOptions& options) : checkpoint_(checkpoint) {
    plans_.options = options;
    ModelOptions& filled = plans_.options;
    filled.with_codec = filled.with_codec && checkpoint.mimi_config() != nullptr;
    filled.with_lm = filled.with_lm && checkpoint.lm_config() != nullptr;
    if (filled.codebooks == 0 && filled.with_codec) filled.codebooks = checkpoint.mimi_codebooks();
    if (!filled.with_lm) filled.prefill_rows = 0;
    if (filled.with_codec) plans_.frame_samples = checkpoint.mimi_config()->frame_samples();
  }

  ModelPlans Build() {
    const int slots = plans_.options.slots;
    plans_.layout =
        std::make_unique<ModelLayout>(slots, std::max(slots, plans_.options.prefill_rows));
    if (!plans_.options.taps) {
      for (int rows = 1; rows < slots; rows *= 2) plans_.plans.push_back(BuildTick(rows));
    }
    plans_.plans.push_back(BuildTick(slots));
    plans_.tick_plans = plans_.plans.size();
    if (plans_.options.prefill_rows > 0) plans_.plans.push_back(BuildPrefill());
    if (plans_.options.with_lm) plans_.kv = ShapeKv();
    return std::move(plans_);
  }

 private:
  LmPlanOptions LmOptions() const;
  Plan BuildTick(int rows);
  Plan BuildPrefill();
  kernels::KvShape ShapeKv() const;

  const Checkpoint& checkpoint_;
  ModelPlans plans_;
};

LmPlanOptions Planner::LmOptions() const {
  const LmConfig& lm = *checkpoint_.lm_config();
  LmPlanOptions lm_options;
  lm_options.depth_steps = plans_.options.all_depth_steps ? lm.dep_q : NeededDepthSteps(lm);
  lm_options.force_given = plans_.options.force_given;
  lm_options.window = plans_.options.window;
  lm_options.agent_codes = lm.agent_codes();
  lm_options.user_codes = plans_.options.with_codec
                              ? std::max(lm.user_codes(), plans_.options.codebooks)
                              : lm.user_codes();
  return lm_options;
}

Plan Planner::BuildTick(int rows) {
  PlanBuilder builder(*plans_.layout, rows, plans_.options.taps);
  MimiPlanOptions mimi;
  mimi.codebooks = plans_.options.codebooks;
  mimi.window = plans_.options.window;
  if (plans_.options.with_lm) {
    builder.plan().tokens = MakeTokenLayout(builder, *checkpoint_.lm_config(), LmOptions());
    plans_.tokens = builder.plan().tokens;
  } else {
    plans_.tokens.user_codes = plans_.layout->state.Get("user_codes", plans_.options.codebooks);
    plans_.tokens.agent_codes = plans_.layout->state.Get("agent_codes", plans_.options.codebooks);
  }
  mimi.codes_out = plans_.tokens.user_codes;
  mimi.codes_in = plans_.options.echo ? plans_.tokens.user_codes : plans_.tokens.agent_codes;
  if (plans_.options.with_codec) {
    plans_.pcm_in = plans_.layout->io.Get("pcm_in", plans_.frame_samples);
    plans_.pcm_out = plans_.layout->io.Get("pcm_out", plans_.frame_samples);
    builder.set_keep(true);
    AppendMimiEncode(builder, *checkpoint_.mimi_config(), *checkpoint_.mimi(), mimi, plans_.pcm_in);
    builder.set_keep(false);
  }
  if (plans_.options.with_lm) {
    AppendLmStep(builder, *checkpoint_.lm_config(), *checkpoint_.lm(), LmOptions());
  }
  if (plans_.options.with_codec) {
    // The decoder reads as many levels as the agent has codes.
    if (plans_.options.with_lm) mimi.codebooks = checkpoint_.lm_config()->agent_codes();
    builder.set_keep(true);
    if (mimi.codebooks > 0) {
      AppendMimiDecode(builder, *checkpoint_.mimi_config(), *checkpoint_.mimi(), mimi,
                       plans_.pcm_out);
    }
  }
  return std::move(builder.plan());
}

Plan Planner::BuildPrefill() {
  PlanBuilder builder(*plans_.layout, plans_.options.prefill_rows, false);
  builder.plan().tokens = MakeTokenLayout(builder, *checkpoint_.lm_config(), LmOptions());
  AppendLmPrefill(builder, *checkpoint_.lm_config(), *checkpoint_.lm(), LmOptions());
  plans_.embedding = plans_.layout->io.Get("embedding", checkpoint_.lm_config()->temporal.dim);
  return std::move(builder.plan());
}

kernels::KvShape Planner::ShapeKv() const {
  const ModelOptions& options = plans_.options;
  const TransformerConfig& temporal = checkpoint_.lm_config()->temporal;
  if (options.prefill_rows > kernels::kKvChunk) {
    throw InputError("prefill_rows: expected at most " + std::to_string(kernels::kKvChunk) +
                     ", found " + std::to_string(options.prefill_rows));
  }
  kernels::KvShape shape;
  shape.layers = temporal.layers;
  shape.kv_heads = temporal.heads / temporal.kv_repeat;
  shape.head_dim = temporal.head_dim();
  shape.slots = options.slots;
  shape.slot_pages = kernels::KvSlotPages(temporal.context, std::max(1, options.prefill_rows));
  const int enough = options.slots * shape.slot_pages;
  shape.pages = options.kv_pool_pages > 0 ? std::min(options.kv_pool_pages, enough) : enough;
  if (shape.pages < shape.slot_pages) {
    throw InputError("kv_pool_pages: one session needs " + std::to_string(shape.slot_pages) +
                     ", found " + std::to_string(shape.pages));
  }
  shape.prompt_pages = options.kv_prompt_pages;
  shape.format = options.kv;
  return shape;
}

}  // namespace

const Plan* ModelPlans::Tick(int rows) const {
  for (size_t i = 0; i < tick_plans; ++i) {
    if (plans[i].max_rows >= rows) return &plans[i];
  }
  return nullptr;
}

ModelPlans PlanModel(const Checkpoint& checkpoint, const ModelOptions& options) {
  return Planner(checkpoint, options).Build();
}

}  // namespace antiphon::engine
