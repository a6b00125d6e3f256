// Attention over full pages as one worker runs it: one query per head of every layer, a context of
// 3,000 positions of 16 layers x 16 heads x 64 (`mid`), so that caches do not flatter. Prints GB/s
// of the pages' bytes.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kernels/cpu/kv_attention.h"
#include "kernels/cpu/kv_memory.h"

namespace antiphon::kernels::cpu {
namespace {

constexpr int32_t kContext = 3000;

void Attention(benchmark::State& state) {
  KvShape shape;
  shape.layers = 16;
  shape.kv_heads = 16;
  shape.head_dim = 64;
  shape.slots = 1;
  shape.slot_pages = KvSlotPages(kContext, 1);
  shape.pages = shape.slot_pages;
  shape.format = static_cast<KvFormat>(state.range(0));
  KvMemory memory(shape);
  std::vector<int32_t> table(static_cast<size_t>(shape.pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> kv(static_cast<size_t>(2 * shape.kv_heads * shape.head_dim));
  for (int64_t p = 0; p < kContext + kKvPage; ++p) {
    for (float& x : kv) x = uniform(random);
    for (int32_t layer = 0; layer < shape.layers; ++layer) {
      memory.Append(table.data(), 0, p, layer, kv.data(), kv.data() + kv.size() / 2);
    }
  }
  const int64_t newest = kContext + kKvPage - 1;
  std::vector<float> scores(static_cast<size_t>(shape.slot_pages) * kKvPage);
  std::vector<KvChunk> chunks(static_cast<size_t>(shape.slot_pages));
  std::vector<float> out(static_cast<size_t>(shape.head_dim));
  const int64_t first = (newest + 1 - kContext) / kKvPage, last = newest / kKvPage;
  const int64_t begin = (newest + 1 - kContext) % kKvPage;
  for (auto _ : state) {
    for (int32_t layer = 0; layer < shape.layers; ++layer) {
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        for (int64_t page = first; page <= last; ++page) {
          chunks[static_cast<size_t>(page - first)] =
              memory.Chunk(table.data(), 0, page, newest, layer, head);
        }
        const KvView view{chunks.data(), last - first + 1, begin, begin + kContext,
                          chunks[0].keys + (chunks[1].keys - chunks[0].keys) * shape.pages};
        AttendPages(kv.data() + head * shape.head_dim, shape.head_dim, view, scores.data(),
                    out.data());
        benchmark::DoNotOptimize(out.data());
      }
    }
  }
  const double bytes = static_cast<double>(memory.page_bytes()) * kContext / kKvPage;
  state.counters["GB/s"] = benchmark::Counter(
      bytes * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["MB"] = bytes * 1e-6;
}
BENCHMARK(Attention)->ArgName("format")->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace antiphon::kernels::cpu

BENCHMARK_MAIN();
