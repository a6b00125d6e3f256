#include "cli/bench.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/bench_run.h"
#include "kernels/cpu/bandwidth_probe.h"

namespace antiphon::cli {
namespace {

// Share of the deadline that stays free in the number of sessions that fit.
constexpr double kMargin = 0.2;

// Sessions whose ticks fit, if all of a tick's time grew with them: an under-estimate, since the
// weights are read once for all.
int Fits(const BenchRow& row) {
  return static_cast<int>(row.sessions * kDeadlineMs * (1 - kMargin) / row.p99_ms);
}

// Of the read bandwidth, at the median tick.
double BandwidthShare(const BenchRow& row, double bandwidth) {
  return row.cost.memory_bytes() / (row.p50_ms * 1e-3) / bandwidth;
}

void PrintJson(const BenchOptions& options, const Bench& bench, const BenchRow& row,
               double bandwidth) {
  const auto part = [&](kernels::Part p) { return row.part_ms[static_cast<size_t>(p)]; };
  nlohmann::ordered_json line;
  line["shape"] = options.shape;
  line["part"] = options.part;
  line["sessions"] = row.sessions;
  line["threads"] = bench.threads();
  line["weights"] = options.weights;
  line["kv"] = options.kv;
  line["context"] = row.context;
  line["ticks"] = options.ticks;
  line["p50_ms"] = row.p50_ms;
  line["p99_ms"] = row.p99_ms;
  line["p999_ms"] = row.p999_ms;
  line["max_ms"] = row.max_ms;
  line["max_tick"] = row.max_tick;
  line["encode_ms"] = part(kernels::Part::kEncode);
  line["temporal_ms"] = part(kernels::Part::kTemporal);
  line["depth_ms"] = part(kernels::Part::kDepth);
  line["decode_ms"] = part(kernels::Part::kDecode);
  line["bytes"] = row.cost.memory_bytes();
  line["weight_bytes"] = row.cost.weight_bytes;
  line["kv_bytes"] = row.cost.kv_bytes;
  line["macs"] = row.cost.macs;
  line["read_gbps"] = bandwidth * 1e-9;
  line["bandwidth_share"] = BandwidthShare(row, bandwidth);
  line["fits"] = Fits(row);
  line["late"] = row.late;
  // None in n: below 3 / n with 95 % confidence.
  line["late_bound"] =
      (row.late > 0 ? row.late + 2 * std::sqrt(row.late) + 3.0 : 3.0) / options.ticks;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void PrintHeader() {
  std::printf("%8s %8s %8s %8s %8s %6s %8s %8s %8s %8s %8s %7s %7s %5s %s\n", "sessions", "p50 ms",
              "p99", "p99.9", "max", "(tick)", "encode", "temporal", "depth", "decode", "MB",
              "of read", "GMAC/s", "fits", "late");
}

void PrintRow(const BenchOptions& options, const BenchRow& row, double bandwidth) {
  std::printf("%8d %8.2f %8.2f %8.2f %8.2f %6d %8.2f %8.2f %8.2f %8.2f %8.0f %6.0f%% %7.0f %5d ",
              row.sessions, row.p50_ms, row.p99_ms, row.p999_ms, row.max_ms, row.max_tick,
              row.part_ms[0], row.part_ms[1], row.part_ms[2], row.part_ms[3],
              row.cost.memory_bytes() * 1e-6, 100 * BandwidthShare(row, bandwidth),
              row.cost.macs * 1e-6 / row.p50_ms, Fits(row));
  if (row.late == 0) {
    std::printf("0 of %d (below %.1g)\n", options.ticks, 3.0 / options.ticks);
  } else {
    std::printf("%d of %d\n", row.late, options.ticks);
  }
  std::fflush(stdout);
}

int RunBench(const BenchOptions& options) {
  Bench bench(options);
  const double bandwidth = kernels::cpu::MeasureReadBandwidth(bench.threads());
  if (!options.json) {
    std::printf("%s, part %s, weights %s (%.2f GB), kv %s (%.2f GB), %d threads, read %.1f GB/s\n",
                options.shape.c_str(), options.part.c_str(), options.weights.c_str(),
                static_cast<double>(bench.model().executor().weight_bytes()) * 1e-9,
                options.kv.c_str(), static_cast<double>(bench.model().executor().kv_bytes()) * 1e-9,
                bench.threads(), bandwidth * 1e-9);
    PrintHeader();
  }
  for (const int sessions : options.sessions) {
    const BenchRow row = bench.Run(sessions);
    if (options.json) {
      PrintJson(options, bench, row, bandwidth);
    } else {
      PrintRow(options, row, bandwidth);
    }
  }
  return 0;
}

}  // namespace

void RegisterBench(CLI::App& app, int* exit_status) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench =
      app.add_subcommand("bench", "Ticks of any model shape with random weights and full contexts");
  bench
      ->add_option("--shape", options->shape,
                   "pico, mid, moshi-7b, personaplex-7b, mimi, a config.json or a folder")
      ->capture_default_str();
  bench->add_option("--weights", options->weights, "auto, fp32, bf16, int8 or int4")
      ->capture_default_str();
  bench->add_option("--kv", options->kv, "fp32, bf16, int8 or int4")->capture_default_str();
  bench->add_option("--part", options->part, "all, lm or mimi")->capture_default_str();
  bench->add_option("--sessions", options->sessions, "Sessions in lockstep, a row each")
      ->delimiter(',')
      ->capture_default_str();
  bench->add_option("--context", options->context, "Frames behind each session, or full")
      ->capture_default_str();
  bench->add_option("--ticks", options->ticks, "Measured ticks a row")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  bench->add_option("--threads", options->threads, "Workers, 0: one per core")
      ->check(CLI::Range(0, 256));
  bench->add_flag("--json", options->json, "An object a row instead of a table");
  bench->callback([options, exit_status] { *exit_status = RunBench(*options); });
}

}  // namespace antiphon::cli
