// What carries out plans. One thread (the tick thread) calls everything.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/plan.h"

namespace antiphon::kernels {

class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::string_view name() const = 0;

  // Start-up: packs all weights into the executor's own layout and takes the arenas. May be called
  // once. `plans` and what they point to must outlive the executor. Allocation failure throws
  // std::bad_alloc; nothing else throws.
  virtual void Prepare(const WeightTable& weights, const std::vector<const Plan*>& plans,
                       const ArenaSizes& sizes) = 0;

  // Host addresses of the arenas, for putting frames in and reading results between runs.
  virtual float* state() = 0;
  virtual float* io() = 0;
  virtual const float* scratch() const = 0;

  // Runs all ops of the plan for the rows that `control` names and returns when they are done.
  // REQUIRES: the plan was given to Prepare, and no stage has more than plan.max_rows rows.
  // Allocates nothing, takes no lock.
  virtual void Run(const Plan& plan, const Control& control) noexcept = 0;

  // Nanoseconds of the last run by part; zeros where an executor does not measure.
  virtual std::array<int64_t, kParts> part_ns() const { return {}; }

  // Bytes that packed weights take.
  virtual int64_t weight_bytes() const = 0;

  // A page of the cache, all layers and heads, as bytes that only this executor reads: a parked
  // session's pages leave the pool and come back. Between runs only.
  virtual int64_t kv_page_bytes() const = 0;
  virtual void ReadKvPage(int32_t page, std::byte* out) const noexcept = 0;
  virtual void WriteKvPage(int32_t page, const std::byte* in) noexcept = 0;
  // Bytes of the whole cache.
  virtual int64_t kv_bytes() const = 0;
};

// The judge: plain loops, double accumulation, one thread, float32 weights.
std::unique_ptr<Executor> MakeReferenceExecutor();

// How matrices are kept. int8 and int4: groups of 32 inputs with a scale each; what a WeightSpec
// keeps, tables and vectors stay as with kAuto.
enum class WeightFormat : uint8_t { kAuto, kF32, kBf16, kInt8, kInt4 };

// Bytes that the cpu executor's packing of a weight takes.
int64_t CpuPackedBytes(const WeightSpec& spec, WeightFormat format);

struct CpuExecutorOptions {
  WeightFormat weights = WeightFormat::kAuto;  // kAuto: bf16 where the checkpoint's are
  int threads = 0;                             // 0: one per core
  bool pin = true;                             // bind each worker to a core
};

// Vectorised, multi-threaded: the instruction set is chosen at run time, the calling thread is the
// first worker and threads - 1 more persist between runs.
std::unique_ptr<Executor> MakeCpuExecutor(const CpuExecutorOptions& options);

}  // namespace antiphon::kernels
