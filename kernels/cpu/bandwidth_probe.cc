#include "kernels/cpu/bandwidth_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

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

}  // namespace antiphon::kernels::cpu
