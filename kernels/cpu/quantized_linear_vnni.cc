// 512-bit VNNI: four byte products a lane and instruction, sixteen output channels a register. A
// tile unpacks a group's weights once (eight registers) and multiplies them by every row's inputs,
// which come as broadcasts from memory. Bound by DRAM up to about eight rows, then by the two
// multiplier ports: eight dot products, one multiply and one FMA per row and group.
#ifdef __x86_64__

#include <immintrin.h>

#include "kernels/cpu/quantized_avx512-inl.h"
#include "kernels/cpu/quantized_linear_x86.h"

// gcc 12's own headers leave vectors undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define ANTIPHON_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

namespace antiphon::kernels::cpu {
namespace {

// Bytes ahead of the reading: see kFetchAhead in kv_kernels.h.
constexpr int64_t kAhead = 4096;

constexpr int32_t kChannels = kPanelChannels;
constexpr int kSideBySide = 4;
constexpr int32_t kQuads = kQuantGroup / 4;  // dot products of a group

// A group's weights as unsigned bytes, and its scales.
struct Group {
  __m512i levels[kQuads];
  __m512 scales;
};

template <QuantFormat kFormat>
ANTIPHON_VNNI inline void LoadGroup(const std::byte* block, int32_t g, Group* group) {
  const auto* p = reinterpret_cast<const uint8_t*>(block);
  group->scales = LoadScales(block, g);
  p += 2 * kChannels * kGroupsPerBlock;
  if constexpr (kFormat == QuantFormat::kInt4) {
    p += g * kChannels * kQuantGroup / 2;
    const __m512i mask = _mm512_set1_epi8(15);
    for (int32_t i = 0; i < kQuads / 2; ++i) {
      const __m512i both = _mm512_load_si512(p + 64 * i);
      group->levels[2 * i] = _mm512_and_si512(both, mask);
      group->levels[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    }
  } else {
    p += g * kChannels * kQuantGroup;
    for (int32_t i = 0; i < kQuads; ++i) group->levels[i] = _mm512_load_si512(p + 64 * i);
  }
}

ANTIPHON_VNNI inline __m512i Broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Rows [kFirst, kRows) of one group. A few go side by side: one row's products wait for each other,
// and what waits fills the scheduler.
template <int kRows, int kFirst>
ANTIPHON_VNNI inline void Rows(const Group& group, const int8_t* levels, const float* scales,
                               const int32_t* starts, __m512 (&sums)[kRows]) {
  constexpr int kCount = kRows - kFirst < kSideBySide ? kRows - kFirst : kSideBySide;
  __m512i dots[kCount];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) dots[r] = _mm512_set1_epi32(starts[kFirst + r]);
#pragma GCC unroll 8
  for (int32_t i = 0; i < kQuads; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const __m512i x = Broadcast4(levels + (kFirst + r) * kQuantGroup + 4 * i);
      dots[r] = _mm512_dpbusd_epi32(dots[r], group.levels[i], x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
    const __m512 scale = _mm512_mul_ps(group.scales, _mm512_set1_ps(scales[kFirst + r]));
    sums[kFirst + r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, sums[kFirst + r]);
  }
  if constexpr (kFirst + kCount < kRows) {
    Rows<kRows, kFirst + kCount>(group, levels, scales, starts, sums);
  }
}

// kPanels neighbouring panels for kRows rows. For few rows several panels are read at once: each is
// a stream of its own to the prefetchers, and a core has only so much of one stream in flight.
template <QuantFormat kFormat, int kRows, int kPanels>
ANTIPHON_VNNI void Tile(const QuantizedBlock& block, int32_t panel) {
  constexpr int64_t kBytes = QuantBlockBytes(kFormat);
  const int64_t panel_bytes = block.blocks * kBytes;
  const std::byte* at = block.panels + panel * panel_bytes;
  const int8_t* levels = block.x.levels;
  const float* scales = block.x.scales;
  const int32_t* starts = block.x.starts;
  __m512 sums[kPanels][kRows];
  for (auto& of_panel : sums) {
    for (__m512& sum : of_panel) sum = _mm512_setzero_ps();
  }
  for (int32_t b = 0; b < block.blocks; ++b, at += kBytes) {
    for (int p = 0; p < kPanels; ++p) {
      for (int64_t i = 0; i < kBytes; i += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(at + p * panel_bytes) + kAhead + i, _MM_HINT_T0);
      }
    }
    for (int32_t g = 0; g < kGroupsPerBlock; ++g) {
      for (int p = 0; p < kPanels; ++p) {
        Group group;
        LoadGroup<kFormat>(at + p * panel_bytes, g, &group);
        Rows<kRows, 0>(group, levels, scales, starts, sums[p]);
      }
      levels += kRows * kQuantGroup;
      scales += kRows;
      starts += kRows;
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int r = 0; r < kRows; ++r) StorePanel(block, panel + p, sums[p][r], block.y[r]);
  }
}

template <QuantFormat kFormat, int kRows>
ANTIPHON_VNNI void Panels(const QuantizedBlock& block) {
  constexpr int kPanels = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
  int32_t panel = block.panel_begin;
  for (; panel + kPanels <= block.panel_end; panel += kPanels) {
    Tile<kFormat, kRows, kPanels>(block, panel);
  }
  for (; panel < block.panel_end; ++panel) Tile<kFormat, kRows, 1>(block, panel);
}

using Run = void (*)(const QuantizedBlock& block);

template <QuantFormat kFormat, int... kRows>
Run RunOf(int32_t rows, std::integer_sequence<int, kRows...>) {
  static constexpr Run kRuns[] = {Panels<kFormat, kRows + 1>...};
  return kRuns[rows - 1];
}

}  // namespace

bool HasVnniKernel() noexcept {
  return __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

void RunVnni(const QuantizedBlock& block) noexcept {
  constexpr auto kRows = std::make_integer_sequence<int, kQuantTile>();
  if (block.format == QuantFormat::kInt4) {
    RunOf<QuantFormat::kInt4>(block.x.rows, kRows)(block);
  } else {
    RunOf<QuantFormat::kInt8>(block.x.rows, kRows)(block);
  }
}

}  // namespace antiphon::kernels::cpu

#undef ANTIPHON_VNNI
#endif
