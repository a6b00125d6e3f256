// AMX: a tile instruction multiplies a group's weights by up to sixteen rows of inputs at once, so
// what is left to the vector units is to unpack a group once and to scale every row's sixteen dot
// products: three instructions a row where VNNI takes eleven. Pays from a few rows up.
//
// A block of 64 inputs is in the tiles while the block before it is scaled: the tile unit takes
// about 50 cycles from weights to dot products.
#ifdef __x86_64__

#include <asm/prctl.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernels/cpu/quantized_linear_x86.h"

// gcc 12's own headers leave vectors undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define ANTIPHON_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-int8")))

namespace antiphon::kernels::cpu {
namespace {

// Bytes ahead of the reading: see kFetchAhead in kv_kernels.h.
constexpr int64_t kAhead = 4096;

constexpr int32_t kChannels = 16;
constexpr int32_t kQuads = kQuantGroup / 4;

// Inputs of a chunk, at most 16 KiB, stay in the first-level cache for this many panels.
constexpr int32_t kChunkBlocks = 16;
constexpr int32_t kPanelsOfChunk = 8;

// Groups in the tiles together. Tile registers are not renamed: these are as many dot products as
// can be under way while two pairs of inputs and weights take turns.
constexpr int kStage = 4;
constexpr int kStageBlocks = kStage / kGroupsPerBlock;
constexpr int kInputs = kStage, kWeights = kStage + 2;  // tile registers; dot products are 0..3

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
  uint8_t weights[2][kStage][kQuads * 64];
  int32_t dots[2][kStage][kQuantTile][kChannels];
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
  tile(0, kStage, rows, 4 * kChannels);
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

// The levels of a stage of kBlocks blocks to passage->weights[side].
template <QuantFormat kFormat, int kBlocks>
ANTIPHON_AMX inline void Unpack(const std::byte* block, int side, Passage* passage) {
  constexpr int64_t kGroupBytes = kChannels * kQuantGroup / (kFormat == QuantFormat::kInt4 ? 2 : 1);
  for (int b = 0; b < kBlocks; ++b, block += QuantBlockBytes(kFormat)) {
    const auto* levels = reinterpret_cast<const uint8_t*>(block) + 2 * kChannels * kGroupsPerBlock;
    for (int g = 0; g < kGroupsPerBlock; ++g) {
      Unpack<kFormat>(levels + g * kGroupBytes, passage->weights[side][b * kGroupsPerBlock + g]);
    }
  }
}

template <int kGroup, int kGroups>
ANTIPHON_AMX inline void MultiplyGroups(const int8_t* x, int32_t rows, const Passage& passage,
                                        int side) {
  constexpr int kTurn = kGroup % 2;
  LoadTile<kInputs + kTurn>(x + kGroup * rows * kQuantGroup, kQuantGroup);
  LoadTile<kWeights + kTurn>(passage.weights[side][kGroup], 64);
  MultiplyTiles<kGroup, kInputs + kTurn, kWeights + kTurn>();
  if constexpr (kGroup + 1 < kGroups) MultiplyGroups<kGroup + 1, kGroups>(x, rows, passage, side);
}

template <int kGroup, int kGroups>
ANTIPHON_AMX inline void StoreDots(int side, Passage* passage) {
  StoreTile<kGroup>(passage->dots[side][kGroup], 4 * kChannels);
  if constexpr (kGroup + 1 < kGroups) StoreDots<kGroup + 1, kGroups>(side, passage);
}

// Adds a stage's dot products, scaled, to the sums.
template <QuantFormat kFormat, int kRows, int kBlocks>
ANTIPHON_AMX inline void Scale(const std::byte* block, const float* x_scales, int side,
                               const Passage& passage, __m512 (&sums)[kRows]) {
  for (int i = 0; i < kBlocks * kGroupsPerBlock; ++i) {
    const std::byte* scales_at = block + i / kGroupsPerBlock * QuantBlockBytes(kFormat) +
                                 i % kGroupsPerBlock * 2 * kChannels;
    const __m256i half = _mm256_load_si256(reinterpret_cast<const __m256i*>(scales_at));
    const __m512 scales = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 dots = _mm512_cvtepi32_ps(_mm512_load_si512(passage.dots[side][i][r]));
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(x_scales[i * kRows + r]));
      sums[r] = _mm512_fmadd_ps(dots, scale, sums[r]);
    }
  }
}

// Adds `blocks` blocks of a panel to the sums. Three stages are under way: one is unpacked, one is
// in the tiles, one is scaled.
template <QuantFormat kFormat, int kRows>
ANTIPHON_AMX inline void Chunk(const std::byte* at, const int8_t* x, const float* x_scales,
                               int32_t blocks, Passage* passage, __m512 (&sums)[kRows]) {
  constexpr int64_t kBytes = QuantBlockBytes(kFormat) * kStageBlocks;
  constexpr int64_t kLevels = int64_t{kStage} * kRows * kQuantGroup, kScales = kStage * kRows;
  const int32_t stages = blocks / kStageBlocks;
  if (stages > 0) Unpack<kFormat, kStageBlocks>(at, 0, passage);
  for (int32_t s = 0; s < stages; ++s, at += kBytes, x += kLevels, x_scales += kScales) {
    const int side = s & 1;
    for (int64_t i = 0; i < kBytes; i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at) + kAhead + i, _MM_HINT_T0);
    }
    MultiplyGroups<0, kStage>(x, kRows, *passage, side);
    if (s + 1 < stages) Unpack<kFormat, kStageBlocks>(at + kBytes, side ^ 1, passage);
    if (s > 0) {
      Scale<kFormat, kRows, kStageBlocks>(at - kBytes, x_scales - kScales, side ^ 1, *passage,
                                          sums);
    }
    StoreDots<0, kStage>(side, passage);
  }
  if (stages > 0) {
    Scale<kFormat, kRows, kStageBlocks>(at - kBytes, x_scales - kScales, (stages - 1) & 1, *passage,
                                        sums);
  }
  if (blocks % kStageBlocks != 0) {
    Unpack<kFormat, 1>(at, 0, passage);
    MultiplyGroups<0, kGroupsPerBlock>(x, kRows, *passage, 0);
    StoreDots<0, kGroupsPerBlock>(0, passage);
    Scale<kFormat, kRows, 1>(at, x_scales, 0, *passage, sums);
  }
}

ANTIPHON_AMX inline void Store(const QuantizedBlock& block, int32_t panel, __m512 sums, float* y) {
  const bool plain =
      block.bias == nullptr && block.scale == nullptr && block.activation == Activation::kNone;
  const int32_t begin = panel * kChannels;
  if (plain && begin + kChannels <= block.n) {
    if (block.accumulate) sums = _mm512_add_ps(sums, _mm512_loadu_ps(y + begin));
    _mm512_storeu_ps(y + begin, sums);
    return;
  }
  alignas(64) float values[kChannels];
  _mm512_store_ps(values, sums);
  FinishPanel(block, panel, values, y);
}

template <QuantFormat kFormat, int kRows>
ANTIPHON_AMX void Panels(const QuantizedBlock& block) {
  constexpr int64_t kBytes = QuantBlockBytes(kFormat);
  Passage passage;
  alignas(64) float kept[kPanelsOfChunk][kRows][kChannels];
  Configure(kRows);
  for (int32_t first = block.panel_begin; first < block.panel_end; first += kPanelsOfChunk) {
    const int32_t panels = std::min(kPanelsOfChunk, block.panel_end - first);
    for (int32_t b = 0; b < block.blocks; b += kChunkBlocks) {
      const int32_t blocks = std::min(kChunkBlocks, block.blocks - b);
      const int64_t group = int64_t{b} * kGroupsPerBlock * kRows;
      for (int32_t p = 0; p < panels; ++p) {
        __m512 sums[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          sums[r] = b == 0 ? _mm512_setzero_ps() : _mm512_load_ps(kept[p][r]);
        }
        Chunk<kFormat, kRows>(block.panels + (int64_t{first + p} * block.blocks + b) * kBytes,
                              block.x.levels + group * kQuantGroup, block.x.scales + group, blocks,
                              &passage, sums);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) _mm512_store_ps(kept[p][r], sums[r]);
      }
    }
    for (int32_t p = 0; p < panels; ++p) {
      for (int r = 0; r < kRows; ++r) {
        Store(block, first + p, _mm512_load_ps(kept[p][r]), block.y[r]);
      }
    }
  }
  // Live tiles would make every switch of threads save 8 KiB.
  asm volatile("tilerelease");
}

using Run = void (*)(const QuantizedBlock& block);

template <QuantFormat kFormat, int... kRows>
Run RunOf(int32_t rows, std::integer_sequence<int, kRows...>) {
  static constexpr Run kRuns[] = {Panels<kFormat, kRows + 1>...};
  return kRuns[rows - 1];
}

// Tile registers are off until a process asks for them; its threads inherit the permission.
bool MayUseTiles() { return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0; }

}  // namespace

bool HasAmxKernel() noexcept {
  return HasVnniKernel() && __builtin_cpu_supports("amx-tile") != 0 &&
         __builtin_cpu_supports("amx-int8") != 0 && MayUseTiles();
}

void RunAmx(const QuantizedBlock& block) noexcept {
  constexpr auto kRows = std::make_integer_sequence<int, kQuantTile>();
  if (block.format == QuantFormat::kInt4) {
    RunOf<QuantFormat::kInt4>(block.x.rows, kRows)(block);
  } else {
    RunOf<QuantFormat::kInt8>(block.x.rows, kRows)(block);
  }
}

}  // namespace antiphon::kernels::cpu

#undef ANTIPHON_AMX
#endif
