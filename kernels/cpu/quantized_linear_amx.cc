// AMX: a tile instruction multiplies a group's weights by up to sixteen rows of inputs at once, so
// what is left to the vector units is to unpack a group once and to scale every row's sixteen dot
// products: three instructions a row where VNNI takes eleven. Pays from a few rows up.
//
// One or two blocks of 64 inputs, a stage, are in the tiles while the next are unpacked and the
// ones before are scaled: the tile unit takes about 50 cycles from weights to dot products.
#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernels/cpu/quantized_avx512-inl.h"
#include "kernels/cpu/quantized_linear_x86.h"

// gcc 12's own headers leave vectors undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define ANTIPHON_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-int8")))

namespace antiphon::kernels::cpu {
namespace {

// A core gets its share of the memory's bandwidth only from several streams. While this many panels
// are computed one after another, as many after them are fetched side by side.
constexpr int kStreams = 4;

constexpr int32_t kChannels = kPanelChannels;
constexpr int32_t kQuads = kQuantGroup / 4;

// Tile registers are not renamed: four hold dot products under way (of four groups of one tile of
// inputs, or of two groups of two), and two pairs of inputs and weights take turns.
constexpr int kDots = 4;
constexpr int kInputs = kDots, kWeights = kDots + 2;

// Blocks of a stage, which is what is in the tiles together.
constexpr int StageBlocks(int tiles) { return kDots / tiles / kGroupsPerBlock; }

// ARCH_REQ_XCOMP_PERM and the feature number of tile data: Linux,
// Documentation/arch/x86/xstate.rst.
constexpr int kRequestPermission = 0x1023;
constexpr int kTileData = 18;

// The operand of ldtilecfg (Intel SDM volume 1, 18.3).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_of_row[16] = {};
  uint8_t rows[16] = {};
};

// Weights on their way to the tiles and dot products on their way back, for two stages.
struct alignas(64) Passage {
  uint8_t weights[2][kDots][kQuads * 64];         // by group
  int32_t dots[2][kDots][kQuantTile][kChannels];  // by group and tile
};

// As statements with a memory clobber rather than the compiler's intrinsics: gcc 12's do not say
// that they read and write memory, and stores that feed them get lost.
template <int kTile>
ANTIPHON_AMX inline void LoadTile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
ANTIPHON_AMX inline void StoreTile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}
template <int kSum, int kA, int kB>
ANTIPHON_AMX inline void MultiplyTiles() {
  asm volatile("tilezero %%tmm%c0\n\ttdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA),
               "i"(kB));
}

ANTIPHON_AMX void Configure(int32_t rows) {
  TileConfig config;
  const auto tile = [&config](int first, int count, int32_t rows_of, int32_t bytes) {
    for (int i = first; i < first + count; ++i) {
      config.rows[i] = static_cast<uint8_t>(rows_of);
      config.bytes_of_row[i] = static_cast<uint16_t>(bytes);
    }
  };
  tile(0, kDots, rows, 4 * kChannels);
  tile(kInputs, 2, rows, kQuantGroup);
  tile(kWeights, 2, kQuads, 4 * kChannels);
  asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

// A group's levels as signed bytes.
template <QuantFormat kFormat>
ANTIPHON_AMX inline void Unpack(const uint8_t* levels, uint8_t* out) {
  if constexpr (kFormat == QuantFormat::kInt4) {
    const __m512i mask = _mm512_set1_epi8(15), zero = _mm512_set1_epi8(8);
    for (int32_t i = 0; i < kQuads / 2; ++i) {
      const __m512i both = _mm512_load_si512(levels + 64 * i);
      const __m512i low = _mm512_and_si512(both, mask);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
      _mm512_store_si512(out + 128 * i, _mm512_sub_epi8(low, zero));
      _mm512_store_si512(out + 128 * i + 64, _mm512_sub_epi8(high, zero));
    }
  } else {
    const __m512i sign = _mm512_set1_epi8(-128);
    for (int32_t i = 0; i < kQuads; ++i) {
      const __m512i stored = _mm512_load_si512(levels + 64 * i);
      _mm512_store_si512(out + 64 * i, _mm512_xor_si512(stored, sign));
    }
  }
}

// Where a panel's group is.
template <QuantFormat kFormat>
struct PanelGroups {
  static constexpr int64_t kBytes =
      kChannels * kQuantGroup / (kFormat == QuantFormat::kInt4 ? 2 : 1);
  const std::byte* panel;
  const uint8_t* Levels(int32_t group) const {
    return reinterpret_cast<const uint8_t*>(Block(group)) + 2 * kChannels * kGroupsPerBlock +
           group % kGroupsPerBlock * kBytes;
  }
  ANTIPHON_AMX __m512 Scales(int32_t group) const {
    return LoadScales(Block(group), group % kGroupsPerBlock);
  }
  const std::byte* Block(int32_t group) const {
    return panel + int64_t{group / kGroupsPerBlock} * QuantBlockBytes(kFormat);
  }
};

// The dot products of one group, with kTiles tiles of inputs, into tile registers from
// kGroup * kTiles on.
template <int kRows, int kTiles, int kGroup>
ANTIPHON_AMX inline void Multiply(const QuantizedTile* x, int32_t group, const uint8_t* weights) {
  constexpr int kTurn = kGroup % 2;
  const int64_t at = int64_t{group} * kRows * kQuantGroup;
  LoadTile<kWeights + kTurn>(weights, 64);
  LoadTile<kInputs + (kTiles == 1 ? kTurn : 0)>(x[0].levels + at, kQuantGroup);
  MultiplyTiles<kGroup * kTiles, kInputs + (kTiles == 1 ? kTurn : 0), kWeights + kTurn>();
  if constexpr (kTiles == 2) {
    LoadTile<kInputs + 1>(x[1].levels + at, kQuantGroup);
    MultiplyTiles<kGroup * kTiles + 1, kInputs + 1, kWeights + kTurn>();
  }
}

// Adds the dot products of `groups` groups from `group` on, scaled, to a tile's sums.
template <QuantFormat kFormat, int kRows, int kTiles>
ANTIPHON_AMX inline void Scale(const PanelGroups<kFormat>& panel, int32_t group, int groups,
                               const float* x_scales, const int32_t (*dots)[kQuantTile][kChannels],
                               __m512 (&sums)[kRows]) {
  x_scales += int64_t{group} * kRows;
  for (int i = 0; i < groups; ++i, x_scales += kRows) {
    const __m512 scales = panel.Scales(group + i);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots[i * kTiles][r]));
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(x_scales[r]));
      sums[r] = _mm512_fmadd_ps(dot, scale, sums[r]);
    }
  }
}

// Asks for `bytes` from each of kStreams panels on; returns what comes next.
ANTIPHON_AMX inline const std::byte* Fetch(const std::byte* from, int64_t bytes,
                                           int64_t panel_bytes) {
  for (int stream = 0; stream < kStreams; ++stream) {
    const auto* at = reinterpret_cast<const char*>(from + stream * panel_bytes);
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(at + i, _MM_HINT_T1);
  }
  return from + bytes;
}

// One panel's sums for kTiles tiles of kRows rows. Three stages are under way: one is unpacked, one
// is in the tiles, one is scaled, group by group in turn, so that neither unit waits for the other.
template <QuantFormat kFormat, int kRows, int kTiles>
class PanelSums {
 public:
  ANTIPHON_AMX PanelSums(const std::byte* panel, const QuantizedTile* x, Passage* passage)
      : panel_{panel}, x_(x), passage_(passage) {}

  // The panel's `blocks` blocks to out [kTiles]; meanwhile fetches a kStreams-th of each of the
  // kStreams panels at `fetch` (an address past the weights does no harm: it is only a hint).
  ANTIPHON_AMX void Run(int32_t blocks, const std::byte* fetch, float (*out)[kRows][kChannels]) {
    const int64_t panel_bytes = blocks * QuantBlockBytes(kFormat);
    constexpr int kGroups = kDots / kTiles;
    const int32_t groups = blocks * kGroupsPerBlock;
    __m512 sums[kRows];
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    if constexpr (kTiles == 2) {
      for (int r = 0; r < kRows; ++r) _mm512_store_ps(out[1][r], _mm512_setzero_ps());
    }
    for (int32_t g = 0; g < std::min(kGroups, groups); ++g) {
      Unpack<kFormat>(panel_.Levels(g), passage_->weights[0][g]);
    }
    int32_t stage = 0;
    for (; stage + kGroups <= groups; stage += kGroups) {
      const int side = stage / kGroups & 1;
      fetch = Fetch(fetch, StageBlocks(kTiles) * QuantBlockBytes(kFormat) / kStreams, panel_bytes);
      Stage<0, kGroups>(stage, std::min(kGroups, groups - stage - kGroups), side, sums, out);
      Keep<0, kDots>(side);
    }
    const int side = stage / kGroups & 1;
    if (stage > 0) Add(stage - kGroups, kGroups, side ^ 1, sums, out);
    if (stage < groups) {
      Stage<0, kGroupsPerBlock>(stage, 0, side, sums, nullptr);
      Keep<0, kGroupsPerBlock * kTiles>(side);
      Add(stage, kGroupsPerBlock, side, sums, out);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(out[0][r], sums[r]);
  }

 private:
  // Multiplies this stage's groups, unpacks the next one's (`next` of them), adds the last one's.
  template <int kGroup, int kGroups>
  ANTIPHON_AMX void Stage(int32_t stage, int next, int side, __m512 (&sums)[kRows],
                          float (*out)[kRows][kChannels]) {
    Multiply<kRows, kTiles, kGroup>(x_, stage + kGroup, passage_->weights[side][kGroup]);
    if (kGroup < next) {
      Unpack<kFormat>(panel_.Levels(stage + kGroups + kGroup), passage_->weights[side ^ 1][kGroup]);
    }
    if (out != nullptr && stage > 0) {
      const auto* dots = passage_->dots[side ^ 1];
      if constexpr (kTiles == 1) {
        Scale<kFormat, kRows, 1>(panel_, stage - kGroups + kGroup, 1, x_[0].scales, dots + kGroup,
                                 sums);
      } else if constexpr (kGroup == 0) {
        Scale<kFormat, kRows, 2>(panel_, stage - kGroups, kGroups, x_[0].scales, dots, sums);
      } else {
        AddSecond(stage - kGroups, kGroups, side ^ 1, out);
      }
    }
    if constexpr (kGroup + 1 < kGroups) Stage<kGroup + 1, kGroups>(stage, next, side, sums, out);
  }

  // A stage's dot products from the tile registers to memory.
  template <int kTile, int kCount>
  ANTIPHON_AMX void Keep(int side) {
    StoreTile<kTile>(passage_->dots[side][kTile], 4 * kChannels);
    if constexpr (kTile + 1 < kCount) Keep<kTile + 1, kCount>(side);
  }

  ANTIPHON_AMX void Add(int32_t group, int groups, int side, __m512 (&sums)[kRows],
                        float (*out)[kRows][kChannels]) {
    Scale<kFormat, kRows, kTiles>(panel_, group, groups, x_[0].scales, passage_->dots[side], sums);
    if constexpr (kTiles == 2) AddSecond(group, groups, side, out);
  }

  // The second tile's sums do not fit the registers beside the first one's.
  ANTIPHON_AMX void AddSecond(int32_t group, int groups, int side, float (*out)[kRows][kChannels]) {
    __m512 sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_load_ps(out[1][r]);
    Scale<kFormat, kRows, 2>(panel_, group, groups, x_[1].scales, passage_->dots[side] + 1, sums);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(out[1][r], sums[r]);
  }

  PanelGroups<kFormat> panel_;
  const QuantizedTile* x_;
  Passage* passage_;
};

template <QuantFormat kFormat, int kRows, int kTiles>
ANTIPHON_AMX void Panels(const QuantizedBlock& block) {
  const int64_t panel_bytes = block.blocks * QuantBlockBytes(kFormat);
  const QuantizedTile x[] = {block.x, block.second};
  Passage passage;
  alignas(64) float sums[kTiles][kRows][kChannels];
  Configure(kRows);
  for (int32_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
    const std::byte* at = block.panels + panel * panel_bytes;
    const int32_t turn = (panel - block.panel_begin) % kStreams;
    const std::byte* next = at + (kStreams - turn) * panel_bytes + turn * panel_bytes / kStreams;
    PanelSums<kFormat, kRows, kTiles>(at, x, &passage).Run(block.blocks, next, sums);
    for (int tile = 0; tile < kTiles; ++tile) {
      for (int r = 0; r < kRows; ++r) {
        StorePanel(block, panel, _mm512_load_ps(sums[tile][r]), block.y[tile * kQuantTile + r]);
      }
    }
  }
  // Live tiles would make every switch of threads save 8 KiB.
  asm volatile("tilerelease");
}

template <QuantFormat kFormat, int... kRows>
void RunRows(const QuantizedBlock& block, std::integer_sequence<int, kRows...>) {
  using Run = void (*)(const QuantizedBlock& block);
  static constexpr Run kOne[] = {Panels<kFormat, kRows + 1, 1>...};
  const bool two = block.second.rows != 0;
  (two ? Panels<kFormat, kQuantTile, 2> : kOne[block.x.rows - 1])(block);
}

// CPUID leaf 7, EDX: AMX-TILE and AMX-INT8 (Intel SDM volume 2A). clang 14's
// __builtin_cpu_supports does not know them.
bool HasTiles() {
  constexpr unsigned kTile = 1U << 24U, kInt8 = 1U << 25U;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTile) != 0 && (d & kInt8) != 0;
}

// Tile registers are off until a process asks for them; its threads inherit the permission.
bool MayUseTiles() { return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0; }

}  // namespace

bool HasAmxKernel() noexcept { return HasVnniKernel() && HasTiles() && MayUseTiles(); }

void RunAmx(const QuantizedBlock& block) noexcept {
  constexpr auto kRows = std::make_integer_sequence<int, kQuantTile>();
  if (block.format == QuantFormat::kInt4) {
    RunRows<QuantFormat::kInt4>(block, kRows);
  } else {
    RunRows<QuantFormat::kInt8>(block, kRows);
  }
}

}  // namespace antiphon::kernels::cpu

#undef ANTIPHON_AMX
#endif
