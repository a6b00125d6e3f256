#include "engine/machine.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "engine/error.h"
#include "kernels/cpu/bandwidth_probe.h"

namespace antiphon::engine {
namespace {

constexpr double kGiga = 1e9;

// Published figures: memory in GB, bandwidth in GB/s, dense bf16 tensor throughput with fp32 sums
// in TFLOPS. Vendors' data sheets:
//   H200, H100 SXM, A100 80GB SXM, L40S, L4: NVIDIA data sheets of these products
//     (dense bf16 is half of the figure "with sparsity").
//   RTX 4090: NVIDIA Ada GPU architecture whitepaper, appendix A (165.2 TFLOPS).
//   RTX 4060: product page, 242 AI TOPS = fp8 with sparsity; dense bf16 with fp32 sums is an
//   eighth. Jetson AGX Orin 64GB: Jetson AGX Orin Series technical brief, GPU 170 sparse int8 TOPS;
//   dense
//     bf16 is a quarter. Orin Nano 8GB: data sheet of the Super modes, 102 GB/s, 67 sparse int8
//     TOPS, a quarter.
//   Jetson Thor (T5000): product page, 273 GB/s, 2070 TFLOPS fp4 with sparsity; dense bf16 is an
//     eighth. GB10 (DGX Spark): product page, 273 GB/s, 1000 TFLOPS fp4 with sparsity, an eighth.
struct Published {
  const char* name;
  double memory_gb, reserved_gb, bandwidth_gbps, bf16_tflops;
};
// reserved: driver and context on a card of its own; system and daemon too where memory is shared.
constexpr Published kPublished[] = {
    {"h200", 141, 1, 4800, 989},      {"h100", 80, 1, 3350, 989},
    {"a100", 80, 1, 2039, 312},       {"l40s", 48, 1, 864, 362},
    {"l4", 24, 1, 300, 121},          {"rtx4090", 24, 1, 1008, 165.2},
    {"rtx4060", 8, 1, 272, 30.2},     {"agx-thor", 128, 4, 273, 259},
    {"agx-orin", 64, 4, 204.8, 42.5}, {"orin-nano", 8, 2, 102, 16.7},
    {"gb10", 128, 4, 273, 125},
};
// One kernel after another inside a captured graph: launch, drain and first loads. An assumption.
constexpr double kGpuOpSeconds = 3e-6;
// A barrier of the cpu executor's workers and the first loads after it.
constexpr double kCpuOpSeconds = 1e-6;

Machine FromTable(const Published& published) {
  Machine machine;
  machine.name = published.name;
  machine.memory_bytes = published.memory_gb * kGiga;
  machine.reserved_bytes = published.reserved_gb * kGiga;
  machine.bandwidth = published.bandwidth_gbps * kGiga * kSustainedBandwidth;
  machine.macs = published.bf16_tflops * 1e12 / 2 * kSustainedCompute;
  machine.op_s = kGpuOpSeconds;
  machine.source = "published peaks, of which 85 % of bandwidth and 50 % of compute are counted on";
  return machine;
}

Machine MeasureThisMachine() {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  struct sysinfo info {};
  ::sysinfo(&info);
  Machine machine;
  machine.name = "this machine";
  machine.memory_bytes = static_cast<double>(info.totalram) * info.mem_unit;
  machine.reserved_bytes = std::min(kGiga, machine.memory_bytes / 4);
  machine.bandwidth = kernels::cpu::MeasureReadBandwidth(threads);
  machine.macs = kernels::cpu::MeasureMultiplyAdds(threads);
  machine.op_s = threads > 1 ? kCpuOpSeconds : 0.0;
  machine.source =
      std::to_string(threads) + " cores, measured (multiply-adds of float32, in cache)";
  return machine;
}

double Number(const std::string& key, const std::string& value) {
  std::istringstream text(value);
  double number = 0;
  if (!(text >> number) || !text.eof() || !(number > 0)) {
    throw InputError("machine: " + key + ": expected a number above 0, found \"" + value + "\"");
  }
  return number;
}

Machine FromFields(const std::string& fields) {
  Machine machine;
  machine.name = fields;
  machine.source = "as given";
  std::istringstream text(fields);
  for (std::string field; std::getline(text, field, ',');) {
    const size_t equals = field.find('=');
    const std::string key = field.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : field.substr(equals + 1);
    if (key == "bandwidth") {
      machine.bandwidth = Number(key, value) * kGiga;
    } else if (key == "memory") {
      machine.memory_bytes = Number(key, value) * kGiga;
    } else if (key == "ops") {
      machine.macs = Number(key, value) * 1e12 / 2;
    } else if (key == "latency") {
      machine.op_s = Number(key, value) * 1e-6;
    } else {
      throw InputError("machine: expected bandwidth, memory, ops or latency, found \"" + key +
                       "\"");
    }
  }
  if (machine.bandwidth == 0) throw InputError("machine: bandwidth is missing (GB/s)");
  if (machine.memory_bytes == 0) throw InputError("machine: memory is missing (GB)");
  return machine;
}

}  // namespace

const std::vector<std::string>& MachineNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"auto"};
    for (const Published& published : kPublished) all.emplace_back(published.name);
    return all;
  }();
  return names;
}

Machine FindMachine(const std::string& text) {
  if (text == "auto") return MeasureThisMachine();
  for (const Published& published : kPublished) {
    if (text == published.name) return FromTable(published);
  }
  if (text.find('=') != std::string::npos) return FromFields(text);
  std::string known;
  for (const std::string& name : MachineNames()) known += name + ", ";
  throw InputError("machine: expected " + known + "or bandwidth=GB/S,memory=GB, found \"" + text +
                   "\"");
}

}  // namespace antiphon::engine
