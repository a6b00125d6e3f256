#include "kernels/cpu/linear_kernel.h"

#include <type_traits>
#include <utility>

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_kernel.cc"
#include <hwy/foreach_target.h>
// clang-format off: highway.h must follow foreach_target.h
#include <hwy/highway.h>

#include "kernels/cpu/activations-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace antiphon::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kPanel>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kVectors = static_cast<size_t>(kPanel) / kLanes;
using V = hn::Vec<D>;

HWY_INLINE V LoadWeights(D d, const float* p) { return hn::Load(d, p); }
HWY_INLINE V LoadWeights(D d, const hwy::bfloat16_t* p) {
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  return hn::PromoteTo(d, hn::Load(d16, p));
}

// Writes one row of one panel from its sums [kPanel].
HWY_INLINE void Finish(const LinearBlock& block, int32_t panel, const float* sums, float* row) {
  const D d;
  const int32_t begin = panel * kPanel;
  const int32_t valid = block.n - begin < kPanel ? block.n - begin : kPanel;
  for (size_t v = 0; v < kVectors; ++v) {
    const auto offset = static_cast<int32_t>(v * kLanes);
    if (offset >= valid) return;
    const auto left = static_cast<size_t>(valid - offset);
    const size_t lanes = left < kLanes ? left : kLanes;
    const bool whole = lanes == kLanes;
    const int32_t at = begin + offset;
    // A partial vector goes through a small buffer, so that nothing past n is touched.
    HWY_ALIGN float edge[kLanes];
    const auto load = [&](const float* p) {
      if (whole) return hn::LoadU(d, p + at);
      for (size_t i = 0; i < kLanes; ++i) edge[i] = i < lanes ? p[at + static_cast<int32_t>(i)] : 0;
      return hn::Load(d, edge);
    };
    V y = hn::Load(d, sums + offset);
    if (block.bias != nullptr) y = hn::Add(y, load(block.bias));
    y = Activate(d, block.activation, y);
    if (block.scale != nullptr) y = hn::Mul(y, load(block.scale));
    if (block.accumulate) y = hn::Add(y, load(row));
    if (whole) {
      hn::StoreU(y, d, row + at);
    } else {
      hn::Store(y, d, edge);
      for (size_t i = 0; i < lanes; ++i) row[at + static_cast<int32_t>(i)] = edge[i];
    }
  }
}

// Calls body(0), ..., body(kCount - 1) with compile-time indices: sums indexed so stay in
// registers, where a loop that is unrolled late would keep them in memory.
template <typename Body, int... kIndex>
HWY_INLINE void Unroll(Body body, std::integer_sequence<int, kIndex...> /*indices*/) {
  (body(std::integral_constant<int, kIndex>()), ...);
}
template <int kCount, typename Body>
HWY_INLINE void Unroll(Body body) {
  Unroll(body, std::make_integer_sequence<int, kCount>());
}

// kPanels neighbouring panels for kRows rows from row `first` on: kPanels * kRows independent sums
// hide the FMA latency.
template <typename Weight, int kRows, int kPanels>
HWY_INLINE void Tile(const LinearBlock& block, int32_t first, int32_t panel) {
  constexpr int kSums = static_cast<int>(kVectors) * kPanels;  // of a row
  const D d;
  const int64_t panel_size = int64_t{block.k} * kPanel;
  const Weight* w = static_cast<const Weight*>(block.panels) + panel * panel_size;
  V sums[kRows * kSums];
  Unroll<kRows * kSums>([&](auto i) { sums[i] = hn::Zero(d); });
  const int32_t piece = block.k / block.taps;
  for (int32_t tap = 0; tap < block.taps; ++tap) {
    const float* x[kRows];
    Unroll<kRows>([&](auto r) { x[r] = block.x[first + r] + tap * block.tap_step; });
    for (int32_t i = 0; i < piece; ++i) {
      V weights[kSums];
      Unroll<kSums>([&](auto s) {
        constexpr int kOf = static_cast<int>(kVectors);
        weights[s] = LoadWeights(d, w + s / kOf * panel_size + s % kOf * static_cast<int>(kLanes));
      });
      Unroll<kRows>([&](auto r) {
        const V value = hn::Set(d, x[r][i]);
        Unroll<kSums>([&](auto s) {
          V& sum = sums[r * kSums + s];
          sum = hn::MulAdd(weights[s], value, sum);
        });
      });
      w += kPanel;
    }
  }
  // Through memory, so that the sums themselves have no address.
  HWY_ALIGN float done[kRows * kPanels * kPanel];
  Unroll<kRows * kSums>(
      [&](auto i) { hn::Store(sums[i], d, done + i * static_cast<int>(kLanes)); });
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      Finish(block, panel + p, done + (r * kPanels + p) * kPanel, block.y[first + r]);
    }
  }
}

template <typename Weight, int kRows, int kPanels>
void Panels(const LinearBlock& block, int32_t first) {
  int32_t panel = block.panel_begin;
  for (; panel + kPanels <= block.panel_end; panel += kPanels) {
    Tile<Weight, kRows, kPanels>(block, first, panel);
  }
  for (; panel < block.panel_end; ++panel) Tile<Weight, kRows, 1>(block, first, panel);
}

// Sums of a tile: what fits the registers beside the weights of a step and one x (32 of them with
// 16 lanes, 16 or 32 with fewer).
constexpr int kWidest = kVectors == 1 ? 24 : 12;
// Panels beside each other: four while reading weights is what takes the time.
constexpr int PanelsFor(int rows) {
  const int panels = kWidest / (rows * static_cast<int>(kVectors));
  return panels >= 4 ? 4 : panels >= 2 ? 2 : 1;
}
// Rows of the tallest tile.
constexpr int kTallest = kVectors == 1 ? 12 : kVectors <= 4 ? 12 / static_cast<int>(kVectors) : 1;

template <typename Weight, int kRows>
HWY_INLINE void RowsOf(const LinearBlock& block, int32_t first, int32_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RowsOf<Weight, kRows - 1>(block, first, rows);
  }
  Panels<Weight, kRows, PanelsFor(kRows)>(block, first);
}

template <typename Weight>
void Rows(const LinearBlock& block) {
  for (int32_t first = 0; first < block.rows; first += kTallest) {
    const int32_t left = block.rows - first;
    RowsOf<Weight, kTallest>(block, first, left < kTallest ? left : kTallest);
  }
}

void LinearTarget(const LinearBlock& block) {
  if (block.bf16) {
    Rows<hwy::bfloat16_t>(block);
  } else {
    Rows<float>(block);
  }
}

const char* NameTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace antiphon::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon::kernels::cpu {

HWY_EXPORT(LinearTarget);
HWY_EXPORT(NameTarget);

void Linear(const LinearBlock& block) noexcept { HWY_DYNAMIC_DISPATCH(LinearTarget)(block); }

const char* TargetName() { return HWY_DYNAMIC_DISPATCH(NameTarget)(); }

}  // namespace antiphon::kernels::cpu
#endif
