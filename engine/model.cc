#include "engine/model.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"
#include "engine/mimi_plan.h"

namespace antiphon::engine {

using kernels::Plan;
using kernels::Ref;
using kernels::Stage;

Model::Model(std::shared_ptr<const Checkpoint> checkpoint, const ModelOptions& options,
             std::unique_ptr<kernels::Executor> executor)
    : checkpoint_(std::move(checkpoint)), options_(options), executor_(std::move(executor)) {
  const MimiConfig* mimi = checkpoint_->mimi_config();
  const LmConfig* lm = checkpoint_->lm_config();
  options_.with_codec = options_.with_codec && mimi != nullptr;
  options_.with_lm = options_.with_lm && lm != nullptr;
  if (options_.codebooks == 0 && options_.with_codec) {
    options_.codebooks = checkpoint_->mimi_codebooks();
  }
  if (!options_.with_lm) options_.prefill_rows = 0;
  max_rows_ = options_.slots;
  frame_samples_ = options_.with_codec ? mimi->frame_samples() : 0;
  Build();
}

Model::~Model() = default;

void Model::Build() {
  const int io_rows = std::max(max_rows_, options_.prefill_rows);
  layout_ = std::make_unique<ModelLayout>(options_.slots, io_rows);
  if (options_.taps) {
    plans_.push_back(BuildTick(max_rows_));
  } else {
    for (int rows = 1; rows < max_rows_; rows *= 2) plans_.push_back(BuildTick(rows));
    plans_.push_back(BuildTick(max_rows_));
  }
  tick_plans_ = plans_.size();
  if (options_.prefill_rows > 0) plans_.push_back(BuildPrefill());

  row_storage_.resize(static_cast<size_t>(max_rows_ * 3 + options_.prefill_rows));
  for (int stage = 0; stage < kernels::kStages; ++stage) {
    control_.stages[stage].rows = row_storage_.data() + stage * max_rows_;
  }
  std::vector<const Plan*> plans;
  for (const Plan& plan : plans_) plans.push_back(&plan);
  kv_shape_ = MakeKvPages();
  if (kv_pages_) control_.kv_pages = kv_pages_->table();
  executor_->Prepare(layout_->weights, plans,
                     {layout_->state.total_elements(), layout_->io.total_elements(), kv_shape_});
}

kernels::KvShape Model::MakeKvPages() {
  kernels::KvShape shape;
  if (!options_.with_lm) return shape;
  const TransformerConfig& temporal = checkpoint_->lm_config()->temporal;
  if (options_.prefill_rows > kernels::kKvChunk) {
    throw InputError("prefill_rows: expected at most " + std::to_string(kernels::kKvChunk) +
                     ", found " + std::to_string(options_.prefill_rows));
  }
  shape.layers = temporal.layers;
  shape.kv_heads = temporal.heads / temporal.kv_repeat;
  shape.head_dim = temporal.head_dim();
  shape.slots = options_.slots;
  shape.slot_pages = kernels::KvSlotPages(temporal.context, std::max(1, options_.prefill_rows));
  const int enough = options_.slots * shape.slot_pages;
  shape.pages = options_.kv_pool_pages > 0 ? std::min(options_.kv_pool_pages, enough) : enough;
  if (shape.pages < shape.slot_pages) {
    throw InputError("kv_pool_pages: one session needs " + std::to_string(shape.slot_pages) +
                     ", found " + std::to_string(shape.pages));
  }
  shape.prompt_pages = options_.kv_prompt_pages;
  shape.format = options_.kv;
  kv_pages_ = std::make_unique<KvPages>(shape.slots, shape.slot_pages, shape.pages);
  return shape;
}

bool Model::ReserveKv(int slot) noexcept {
  return kv_pages_ == nullptr || kv_pages_->Reserve(slot);
}

void Model::ReleaseKv(int slot) noexcept {
  if (kv_pages_) kv_pages_->Release(slot);
}

ParkedKv Model::ParkKv(int slot) {
  ParkedKv parked;
  if (!kv_pages_) return parked;
  const auto bytes = static_cast<size_t>(executor_->kv_page_bytes());
  parked.entries = kv_pages_->Entries(slot);
  parked.pages.resize(bytes * parked.entries.size());
  std::byte* out = parked.pages.data();
  for (const int32_t entry : parked.entries) {
    executor_->ReadKvPage(kv_pages_->page(slot, entry), out);
    out += bytes;
  }
  kv_pages_->Release(slot);
  return parked;
}

bool Model::UnparkKv(int slot, const ParkedKv& parked) noexcept {
  if (!kv_pages_) return true;
  if (!kv_pages_->TakeBack(slot, parked.entries)) return false;
  const std::byte* in = parked.pages.data();
  for (const int32_t entry : parked.entries) {
    executor_->WriteKvPage(kv_pages_->page(slot, entry), in);
    in += executor_->kv_page_bytes();
  }
  return true;
}

void Model::OpenKv(int slot, int64_t position) noexcept {
  if (!kv_pages_) return;
  kv_pages_->Reserve(slot);
  const int64_t first =
      std::max<int64_t>(0, position - kv_shape_.slot_pages * kernels::kKvPage + 1);
  for (int64_t p = first; p <= position; ++p) kv_pages_->Extend(slot, p);
}

void Model::ExtendKv(Stage stage) noexcept {
  if (!kv_pages_) return;
  const kernels::Control::Rows& stage_rows = rows(stage);
  for (int32_t r = 0; r < stage_rows.count; ++r) {
    const kernels::Row& row = stage_rows.rows[r];
    kv_pages_->Reserve(row.slot);
    kv_pages_->Extend(row.slot, row.position);
  }
}

LmPlanOptions Model::LmOptions() const {
  const LmConfig& lm = *checkpoint_->lm_config();
  LmPlanOptions lm_options;
  lm_options.depth_steps = options_.all_depth_steps ? lm.dep_q : NeededDepthSteps(lm);
  lm_options.force_given = options_.force_given;
  lm_options.window = options_.window;
  lm_options.agent_codes = lm.agent_codes();
  lm_options.user_codes =
      options_.with_codec ? std::max(lm.user_codes(), options_.codebooks) : lm.user_codes();
  return lm_options;
}

Plan Model::BuildTick(int rows) {
  PlanBuilder builder(*layout_, rows, options_.taps);
  MimiPlanOptions mimi;
  mimi.codebooks = options_.codebooks;
  mimi.window = options_.window;
  if (options_.with_lm) {
    builder.plan().tokens = MakeTokenLayout(builder, *checkpoint_->lm_config(), LmOptions());
    tokens_ = builder.plan().tokens;
  } else {
    tokens_.user_codes = layout_->state.Get("user_codes", options_.codebooks);
    tokens_.agent_codes = layout_->state.Get("agent_codes", options_.codebooks);
  }
  mimi.codes_out = tokens_.user_codes;
  mimi.codes_in = options_.echo ? tokens_.user_codes : tokens_.agent_codes;
  if (options_.with_codec) {
    pcm_in_ = layout_->io.Get("pcm_in", frame_samples_);
    pcm_out_ = layout_->io.Get("pcm_out", frame_samples_);
    builder.set_keep(true);
    AppendMimiEncode(builder, *checkpoint_->mimi_config(), *checkpoint_->mimi(), mimi, pcm_in_);
    builder.set_keep(false);
  }
  if (options_.with_lm) {
    AppendLmStep(builder, *checkpoint_->lm_config(), *checkpoint_->lm(), LmOptions());
  }
  if (options_.with_codec) {
    // The decoder reads as many levels as the agent has codes.
    if (options_.with_lm) mimi.codebooks = checkpoint_->lm_config()->agent_codes();
    builder.set_keep(true);
    if (mimi.codebooks > 0) {
      AppendMimiDecode(builder, *checkpoint_->mimi_config(), *checkpoint_->mimi(), mimi, pcm_out_);
    }
  }
  return std::move(builder.plan());
}

Plan Model::BuildPrefill() {
  PlanBuilder builder(*layout_, options_.prefill_rows, false);
  builder.plan().tokens = MakeTokenLayout(builder, *checkpoint_->lm_config(), LmOptions());
  AppendLmPrefill(builder, *checkpoint_->lm_config(), *checkpoint_->lm(), LmOptions());
  embedding_ = layout_->io.Get("embedding", checkpoint_->lm_config()->temporal.dim);
  return std::move(builder.plan());
}

void Model::Run() noexcept {
  int32_t most = 0;
  for (const Stage stage : {Stage::kEncode, Stage::kStep, Stage::kDecode}) {
    most = std::max(most, rows(stage).count);
  }
  if (most == 0) return;
  ExtendKv(Stage::kStep);
  for (size_t i = 0; i < tick_plans_; ++i) {
    if (plans_[i].max_rows >= most) return executor_->Run(plans_[i], control_);
  }
}

void Model::RunPrefill() noexcept {
  ExtendKv(Stage::kPrefill);
  if (tick_plans_ < plans_.size()) executor_->Run(plans_.back(), control_);
}

float* Model::Io(const Ref& ref, int row) {
  return executor_->io() + ref.offset + row * ref.row_stride;
}

int32_t* Model::IoTokens(const Ref& ref, int row) {
  return reinterpret_cast<int32_t*>(Io(ref, row));
}

int32_t* Model::SlotTokens(const Ref& ref, int slot) {
  return reinterpret_cast<int32_t*>(executor_->state() + ref.offset + slot * ref.row_stride);
}

const kernels::Plan::Tap* Model::FindTap(const std::string& name) const {
  const auto it = plans_.front().taps.find(name);
  return it == plans_.front().taps.end() ? nullptr : &it->second;
}

const float* Model::Tap(const std::string& name, int row, int step) const {
  const Plan::Tap* tap = FindTap(name);
  if (tap == nullptr) return nullptr;
  return executor_->scratch() + tap->ref.offset + row * tap->ref.row_stride + step * tap->step;
}

}  // namespace antiphon::engine
