// One benchmark: a model of a shape, run for a number of sessions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/model_shapes.h"
#include "engine/roofline.h"

namespace antiphon::cli {

struct BenchOptions {
  std::string shape = "mid";
  std::string weights = "int4";
  std::string kv = "int8";
  std::string part = "all";  // "lm", "mimi" or "all"
  std::vector<int> sessions = {1, 2, 4, 8};
  std::string context = "full";  // frames that each session has behind it, or "full"
  int ticks = 250;
  int threads = 0;  // 0: one per core
  bool json = false;
};

// What `ticks` ticks of one number of sessions took. Milliseconds.
struct BenchRow {
  int sessions = 0;
  int64_t context = 0;  // positions that attention saw at the first tick
  double p50_ms = 0, p99_ms = 0, p999_ms = 0, max_ms = 0;
  int max_tick = 0;
  std::array<double, kernels::kParts> part_ms = {};  // means
  engine::Cost cost;                                 // of the first tick
  int late = 0;                                      // ticks beyond the deadline
};

inline constexpr double kDeadlineMs = 80.0;

class Bench {
 public:
  // Builds the model for the largest number of sessions. Throws InputError.
  explicit Bench(const BenchOptions& options);
  ~Bench();

  // Runs every session with the context behind it, tick after tick without a pause. REQUIRES:
  // sessions is at most the largest in the options.
  BenchRow Run(int sessions);

  int threads() const { return threads_; }
  double load_s() const { return load_s_; }
  engine::Model& model() { return *model_; }

 private:
  void SetRows(int sessions, int64_t position);
  engine::Cost CostAt(int sessions, int64_t position) const;
  int64_t FirstPosition() const;

  BenchOptions options_;
  int threads_;
  double load_s_ = 0;
  kernels::WeightFormat format_;
  int64_t given_context_;  // -1: full
  std::unique_ptr<engine::Model> model_;
};

}  // namespace antiphon::cli
