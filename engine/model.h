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
#include "engine/lm_plan.h"
#include "engine/plan_builder.h"
#include "kernels/executor.h"

namespace antiphon::engine {

struct ModelOptions {
  int slots = 1;
  bool with_codec = true;        // plan Mimi encode and decode, where the checkpoint has it
  bool with_lm = true;           // plan the LM, where the checkpoint has it
  bool echo = false;             // decode what encode produced (no LM between)
  int prefill_rows = 16;         // positions of prompt per prefill run; 0: no prefill plan
  bool all_depth_steps = false;  // compute also those that nothing reads (for checks)
  bool force_given = false;      // PersonaPlex stepping; set for that family by default
  AttentionWindow window = AttentionWindow::kStreaming;
  bool taps = false;  // keep named intermediates; one plan for all slots
  int codebooks = 0;  // Mimi levels; 0: Checkpoint::mimi_codebooks()
  kernels::KvFormat kv = kernels::KvFormat::kF32;  // keys and values of the temporal transformer
  int kv_prompt_pages = 2;  // kInt4: first pages (64 positions) of a session that stay int8
  int kv_pool_pages = 0;    // pages in the pool; 0: enough for every slot
};

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
  const ModelOptions& options() const { return options_; }
  const kernels::TokenLayout& tokens() const { return tokens_; }
  kernels::Executor& executor() { return *executor_; }
  int frame_samples() const { return frame_samples_; }
  int max_rows() const { return max_rows_; }  // rows that Run takes per stage

  // Rows of a stage, to be filled before a run: [max_rows], prefill [prefill_rows].
  kernels::Control::Rows& rows(kernels::Stage stage) {
    return control_.stages[static_cast<int>(stage)];
  }

  // Frame and token buffers by row.
  float* pcm_in(int row) { return Io(pcm_in_, row); }               // [frame_samples]
  float* pcm_out(int row) { return Io(pcm_out_, row); }             // [frame_samples]
  int32_t* given(int row) { return IoTokens(tokens_.given, row); }  // [streams]
  const int32_t* out_tokens(int row) { return IoTokens(tokens_.out_tokens, row); }  // [streams]
  float* embedding(int row) { return Io(embedding_, row); }  // [dim], prefill rows only
  // Codes by slot.
  int32_t* user_codes(int slot) { return SlotTokens(tokens_.user_codes, slot); }
  int32_t* agent_codes(int slot) { return SlotTokens(tokens_.agent_codes, slot); }
  // A slot's token grid, [2, streams, ring] (token_grid.h).
  int32_t* token_grid(int slot) { return SlotTokens(tokens_.grid, slot); }

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
  const kernels::KvShape& kv_shape() const { return kv_shape_; }
  const kernels::WeightTable& weights() const { return layout_->weights; }
  const KvPages* kv_pages() const { return kv_pages_.get(); }  // null without an LM

  // Runs encode, step and decode for the rows set (a stage with count 0 is skipped), on the plan of
  // the smallest bucket that fits.
  void Run() noexcept;
  // Runs the prefill stage.
  void RunPrefill() noexcept;

  // A named intermediate of a row after Run, [steps, width]; null where the plan has none.
  const float* Tap(const std::string& name, int row, int step = 0) const;
  const kernels::Plan::Tap* FindTap(const std::string& name) const;
  const std::vector<kernels::Plan>& plans() const { return plans_; }

 private:
  float* Io(const kernels::Ref& ref, int row);
  int32_t* IoTokens(const kernels::Ref& ref, int row);
  int32_t* SlotTokens(const kernels::Ref& ref, int slot);
  void Build();
  kernels::Plan BuildTick(int rows);
  kernels::Plan BuildPrefill();
  LmPlanOptions LmOptions() const;
  kernels::KvShape MakeKvPages();
  // Gives every row of a stage the page that it will write.
  void ExtendKv(kernels::Stage stage) noexcept;

  // Given to us.
  std::shared_ptr<const Checkpoint> checkpoint_;
  ModelOptions options_;
  // Owned by us.
  std::unique_ptr<kernels::Executor> executor_;
  std::unique_ptr<ModelLayout> layout_;
  std::vector<kernels::Plan> plans_;  // by bucket, ascending; the prefill plan last if there is one
  std::vector<kernels::Row> row_storage_;
  std::unique_ptr<KvPages> kv_pages_;
  kernels::KvShape kv_shape_;
  // State.
  kernels::Control control_;
  kernels::TokenLayout tokens_;
  kernels::Ref pcm_in_, pcm_out_, embedding_;
  int frame_samples_ = 0;
  int max_rows_ = 0;
  size_t tick_plans_ = 0;
};

}  // namespace antiphon::engine
