#include "cli/bench_run.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "engine/error.h"
#include "engine/make_executor.h"
#include "kernels/cpu/core_binding.h"

namespace antiphon::cli {

using kernels::Stage;

namespace {

double Percentile(const std::vector<double>& sorted, double share) {
  const auto index = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

// A number of frames, or -1 for "full".
int64_t ParseContext(const std::string& text) {
  if (text == "full") return -1;
  size_t read = 0;
  int64_t frames = -1;
  try {
    frames = std::stoll(text, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  if (read != text.size() || frames < 0) {
    throw InputError("context: expected full or a number of frames, found \"" + text + "\"");
  }
  return frames;
}

}  // namespace

Bench::Bench(const BenchOptions& options)
    : options_(options),
      threads_(options.threads > 0 ? options.threads
                                   : static_cast<int>(std::thread::hardware_concurrency())),
      format_(engine::ParseWeightFormat(options.weights)),
      given_context_(ParseContext(options.context)) {
  const engine::ModelShape shape = engine::FindModelShape(options.shape);
  if (options.part != "all" && options.part != "lm" && options.part != "mimi") {
    throw InputError("part: expected all, lm or mimi, found \"" + options.part + "\"");
  }
  if (options.part != "mimi" && !shape.lm) {
    throw InputError("part: the shape " + shape.name + " has no LM; use --part mimi");
  }
  if (options.sessions.empty() ||
      *std::min_element(options.sessions.begin(), options.sessions.end()) < 1) {
    throw InputError("sessions: expected numbers from 1 on");
  }
  engine::ModelOptions model;
  model.slots = *std::max_element(options.sessions.begin(), options.sessions.end());
  model.with_codec = options.part != "lm";
  model.with_lm = options.part != "mimi";
  model.echo = !model.with_lm;
  model.prefill_rows = 0;
  model.kv = engine::ParseKvFormat(options.kv);
  model.force_given = model.with_lm && shape.lm->family == engine::Family::kPersonaPlex;
  const auto begin = std::chrono::steady_clock::now();
  model_ = std::make_unique<engine::Model>(
      std::make_shared<const engine::Checkpoint>(engine::MakeSyntheticCheckpoint(shape)), model,
      engine::MakeExecutor("cpu", options.weights, threads_));
  load_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // The calling thread is the executor's first worker; the others bind themselves.
  kernels::cpu::BindToCore(0);
}

Bench::~Bench() = default;

int64_t Bench::FirstPosition() const {
  const engine::LmConfig* lm = model_->checkpoint().lm_config();
  if (given_context_ >= 0) return given_context_;
  return lm != nullptr ? lm->temporal.context : 0;
}

void Bench::SetRows(int sessions, int64_t position) {
  const engine::ModelOptions& options = model_->options();
  for (const Stage stage : {Stage::kEncode, Stage::kStep, Stage::kDecode}) {
    kernels::Control::Rows& rows = model_->rows(stage);
    const bool runs = stage == Stage::kStep ? options.with_lm : options.with_codec;
    rows.count = runs ? sessions : 0;
    for (int32_t r = 0; r < rows.count; ++r) {
      kernels::Row& row = rows.rows[r];
      row = kernels::Row{};
      row.slot = r;
      row.position = position;
      row.seed = static_cast<uint64_t>(r);
      row.text_temperature = 0.7F;
      row.audio_temperature = 0.8F;
      row.text_top_k = 25;
      row.audio_top_k = 250;
      row.user_from_encoder = options.with_codec;
    }
  }
}

engine::Cost Bench::CostAt(int sessions, int64_t position) const {
  const auto plan = std::find_if(model_->plans().begin(), model_->plans().end(),
                                 [&](const auto& p) { return p.max_rows >= sessions; });
  const auto bytes = [&](int32_t weight) {
    return kernels::CpuPackedBytes(model_->weights().specs()[static_cast<size_t>(weight)], format_);
  };
  return engine::CostOf(*plan, model_->weights(), bytes, model_->kv_shape(), sessions, position)
      .total();
}

BenchRow Bench::Run(int sessions) {
  const int64_t first = FirstPosition();
  const engine::LmConfig* lm = model_->checkpoint().lm_config();
  for (int slot = 0; slot < sessions; ++slot) {
    model_->OpenKv(slot, first);
    if (lm == nullptr) continue;
    std::fill_n(model_->given(slot), lm->streams(), kernels::kNotGiven);
    for (int q = 0; q < lm->user_codes(); ++q) {
      model_->given(slot)[1 + lm->agent_codes() + q] = (slot * 31 + q * 7) % lm->card;
    }
  }
  constexpr int kWarmUp = 5;
  BenchRow row;
  row.sessions = sessions;
  row.context = lm == nullptr ? 0 : std::min<int64_t>(first + 1, lm->temporal.context);
  row.cost = CostAt(sessions, first);
  std::vector<double> ticks;
  for (int tick = -kWarmUp; tick < options_.ticks; ++tick) {
    SetRows(sessions, first + tick + kWarmUp);
    const auto begin = std::chrono::steady_clock::now();
    model_->Run();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (tick < 0) continue;
    if (took.count() > row.max_ms) {
      row.max_ms = took.count();
      row.max_tick = tick;
    }
    row.late += took.count() > kDeadlineMs ? 1 : 0;
    ticks.push_back(took.count());
    const auto parts = model_->executor().part_ns();
    for (size_t p = 0; p < parts.size(); ++p) {
      row.part_ms[p] += static_cast<double>(parts[p]) * 1e-6 / options_.ticks;
    }
  }
  std::sort(ticks.begin(), ticks.end());
  row.p50_ms = Percentile(ticks, 0.5);
  row.p99_ms = Percentile(ticks, 0.99);
  row.p999_ms = Percentile(ticks, 0.999);
  return row;
}

}  // namespace antiphon::cli
