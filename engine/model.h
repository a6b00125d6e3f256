// A loaded model with everything decided: plans per batch bucket, packed weights, arenas and the
// control block. It knows rows and frames, not callers; DuplexEngine turns it into sessions.
//
// After construction nothing allocates. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/kv_pages.h"
#include "engine/model_plans.h"
#include "kernels/executor.h"

namespace antiphon::engine {

// A parked slot's keys and values.
struct ParkedKv {
  std::vector<int32_t> entries;  // of the slot's ring of pages
  std::vector<std::byte> pages;  // in the same order
};

class Model {
 public:
  // Builds the plans and packs the weights. Throws InputError.
  Model(std::shared_ptr<const Checkpoint> checkpoint, const ModelOptions& options,
        std::unique_ptr<kernels::Executor> executor);
  ~Model();

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelOptions& options() const { return plans_.options; }
  const kernels::TokenLayout& tokens() const { return plans_.tokens; }
  kernels::Executor& executor() { return *executor_; }
  int frame_samples() const { return plans_.frame_samples; }
  int max_rows() const { return plans_.options.slots; }  // rows that Run takes per stage

  // Rows of a stage, to be filled before a run: [max_rows], prefill [prefill_rows].
  kernels::Control::Rows& rows(kernels::Stage stage) {
    return control_.stages[static_cast<int>(stage)];
  }

  // Frame and token buffers by row.
  float* pcm_in(int row) { return Io(plans_.pcm_in, row); }               // [frame_samples]
  float* pcm_out(int row) { return Io(plans_.pcm_out, row); }             // [frame_samples]
  int32_t* given(int row) { return IoTokens(plans_.tokens.given, row); }  // [streams]
  const int32_t* out_tokens(int row) {
    return IoTokens(plans_.tokens.out_tokens, row);
  }                                                                // [streams]
  float* embedding(int row) { return Io(plans_.embedding, row); }  // [dim], prefill rows only
  // Codes by slot.
  int32_t* user_codes(int slot) { return SlotTokens(plans_.tokens.user_codes, slot); }
  int32_t* agent_codes(int slot) { return SlotTokens(plans_.tokens.agent_codes, slot); }
  // A slot's token grid, [2, streams, ring] (token_grid.h).
  int32_t* token_grid(int slot) { return SlotTokens(plans_.tokens.grid, slot); }

  // Promises a slot the pages of its whole context; false if the pool is promised away (never with
  // the default pool). Slots that run without it are promised theirs on the way.
  bool ReserveKv(int slot) noexcept;
  void ReleaseKv(int slot) noexcept;
  // Moves the pages of a slot out of the pool into host memory, which it returns, and back. The
  // slot must not run meanwhile. Unpark is false, and nothing happens, while the pool is promised
  // away. Not for the tick path.
  ParkedKv ParkKv(int slot);
  bool UnparkKv(int slot, const ParkedKv& parked) noexcept;
  // As if the slot had talked up to `position`: its pages are its own, what they hold is nothing.
  void OpenKv(int slot, int64_t position) noexcept;
  const kernels::KvShape& kv_shape() const { return plans_.kv; }
  const kernels::WeightTable& weights() const { return plans_.layout->weights; }
  const KvPages* kv_pages() const { return kv_pages_.get(); }  // null without an LM

  // Runs encode, step and decode for the rows set (a stage with count 0 is skipped), on the plan of
  // the smallest bucket that fits.
  void Run() noexcept;
  // Runs the prefill stage.
  void RunPrefill() noexcept;

  // A named intermediate of a row after Run, [steps, width]; null where the plan has none.
  const float* Tap(const std::string& name, int row, int step = 0) const;
  const kernels::Plan::Tap* FindTap(const std::string& name) const;
  const std::vector<kernels::Plan>& plans() const { return plans_.plans; }

 private:
  float* Io(const kernels::Ref& ref, int row);
  int32_t* IoTokens(const kernels::Ref& ref, int row);
  int32_t* SlotTokens(const kernels::Ref& ref, int slot);
  // Gives every row of a stage the page that it will write.
  void ExtendKv(kernels::Stage stage) noexcept;

  // Given to us.
  std::shared_ptr<const Checkpoint> checkpoint_;
  // Owned by us.
  ModelPlans plans_;
  std::unique_ptr<kernels::Executor> executor_;
  std::vector<kernels::Row> row_storage_;
  std::unique_ptr<KvPages> kv_pages_;
  // State.
  kernels::Control control_;
};

}  // namespace antiphon::engine
