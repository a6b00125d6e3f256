#include "kernels/cpu/bandwidth_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "kernels/cpu/linear_kernel.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/worker_pool.h"

namespace antiphon::kernels::cpu {

double MeasureReadBandwidth(int threads, int64_t bytes) {
  AlignedBlock memory(static_cast<size_t>(bytes));
  std::atomic<uint64_t> sink{0};
  WorkerPool pool(threads, true, [&](int worker) {
    // Four streams a thread: one alone does not keep a core's share of the memory busy.
    constexpr size_t kLine = 64, kStreams = 4;
    const size_t share = memory.bytes() / static_cast<size_t>(threads) / kStreams / kLine * kLine;
    const std::byte* p = memory.data() + kStreams * share * static_cast<size_t>(worker);
    uint64_t sums[8] = {};
    for (size_t i = 0; i < share; i += kLine) {
      for (size_t stream = 0; stream < kStreams; ++stream) {
        uint64_t line[8];
        std::memcpy(line, p + stream * share + i, kLine);
        for (size_t j = 0; j < 8; ++j) sums[j] ^= line[j];
        __builtin_prefetch(p + stream * share + i + 4096);
      }
    }
    for (const uint64_t sum : sums) sink.fetch_xor(sum, std::memory_order_relaxed);
  });
  double best = 0.0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    pool.Run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(memory.bytes()) / took.count());
  }
  return best;
}

double MeasureMultiplyAdds(int threads) {
  // 128 KiB of weights, 8 rows: bound by multiply-adds, not by loads.
  constexpr int32_t kPanels = 4, kInputs = 512, kRuns = 64;
  constexpr size_t kFloats = size_t{kPanels} * kPanel * kInputs;
  constexpr size_t kInput = size_t{kMaxBlock} * kInputs,
                   kOutput = size_t{kMaxBlock} * kPanels * kPanel;
  constexpr size_t kOwn = kFloats + kInput + kOutput;
  AlignedBlock memory(kOwn * sizeof(float) * static_cast<size_t>(threads));
  WorkerPool pool(threads, true, [&](int worker) {
    float* own = memory.floats() + kOwn * static_cast<size_t>(worker);
    LinearBlock block;
    block.panels = own;
    block.k = kInputs;
    block.n = kPanels * kPanel;
    block.panel_end = kPanels;
    block.rows = kMaxBlock;
    for (int32_t r = 0; r < kMaxBlock; ++r) {
      block.x[r] = own + kFloats + r * kInputs;
      block.y[r] = own + kFloats + kInput + r * block.n;
    }
    for (int run = 0; run < kRuns; ++run) Linear(block);
  });
  double best = 0.0;
  for (int pass = 0; pass < 10; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    pool.Run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best =
        std::max(best, static_cast<double>(kFloats) * kMaxBlock * kRuns * threads / took.count());
  }
  return best;
}

}  // namespace antiphon::kernels::cpu
