#include "engine/model.h"

#include <algorithm>
#include <utility>

namespace antiphon::engine {

using kernels::Plan;
using kernels::Ref;
using kernels::Stage;

Model::Model(std::shared_ptr<const Checkpoint> checkpoint, const ModelOptions& options,
             std::unique_ptr<kernels::Executor> executor)
    : checkpoint_(std::move(checkpoint)),
      plans_(PlanModel(*checkpoint_, options)),
      executor_(std::move(executor)) {
  const int slots = plans_.options.slots;
  row_storage_.resize(static_cast<size_t>(slots * 3 + plans_.options.prefill_rows));
  for (int stage = 0; stage < kernels::kStages; ++stage) {
    control_.stages[stage].rows = row_storage_.data() + stage * slots;
  }
  const kernels::KvShape& kv = plans_.kv;
  if (kv.layers > 0) {
    kv_pages_ = std::make_unique<KvPages>(kv.slots, kv.slot_pages, kv.pages);
    control_.kv_pages = kv_pages_->table();
  }
  std::vector<const Plan*> plans;
  for (const Plan& plan : plans_.plans) plans.push_back(&plan);
  executor_->Prepare(plans_.layout->weights, plans, plans_.Sizes());
}

Model::~Model() = default;

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
      std::max<int64_t>(0, position - plans_.kv.slot_pages * kernels::kKvPage + 1);
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

void Model::Run() noexcept {
  int32_t most = 0;
  for (const Stage stage : {Stage::kEncode, Stage::kStep, Stage::kDecode}) {
    most = std::max(most, rows(stage).count);
  }
  if (most == 0) return;
  ExtendKv(Stage::kStep);
  if (const Plan* plan = plans_.Tick(most)) executor_->Run(*plan, control_);
}

void Model::RunPrefill() noexcept {
  ExtendKv(Stage::kPrefill);
  if (const Plan* plan = plans_.Prefill()) executor_->Run(*plan, control_);
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
  const auto it = plans_.plans.front().taps.find(name);
  return it == plans_.plans.front().taps.end() ? nullptr : &it->second;
}

const float* Model::Tap(const std::string& name, int row, int step) const {
  const Plan::Tap* tap = FindTap(name);
  if (tap == nullptr) return nullptr;
  return executor_->scratch() + tap->ref.offset + row * tap->ref.row_stride + step * tap->step;
}

}  // namespace antiphon::engine
