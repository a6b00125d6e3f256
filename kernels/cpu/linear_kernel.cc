#include "kernels/cpu/linear_kernel.h"

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

// Writes one row of one panel.
HWY_INLINE void Finish(const LinearBlock& block, int32_t panel, const V (&sums)[kVectors],
                       float* row) {
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
    V y = sums[v];
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

// kPanels neighbouring panels for kRows rows: kPanels * kRows independent sums hide the FMA
// latency.
template <typename Weight, int kRows, int kPanels>
HWY_INLINE void Tile(const LinearBlock& block, int32_t panel) {
  const D d;
  const int64_t panel_size = int64_t{block.k} * kPanel;
  const Weight* w = static_cast<const Weight*>(block.panels) + panel * panel_size;
  V sums[kPanels][kRows][kVectors];
  for (auto& by_row : sums) {
    for (auto& row : by_row) {
      for (V& sum : row) sum = hn::Zero(d);
    }
  }
  const int32_t piece = block.k / block.taps;
  for (int32_t tap = 0; tap < block.taps; ++tap) {
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = block.x[r] + tap * block.tap_step;
    for (int32_t i = 0; i < piece; ++i) {
      for (int p = 0; p < kPanels; ++p) {
        for (size_t v = 0; v < kVectors; ++v) {
          const V weight = LoadWeights(d, w + p * panel_size + static_cast<int64_t>(v * kLanes));
          for (int r = 0; r < kRows; ++r) {
            sums[p][r][v] = hn::MulAdd(weight, hn::Set(d, x[r][i]), sums[p][r][v]);
          }
        }
      }
      w += kPanel;
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int r = 0; r < kRows; ++r) Finish(block, panel + p, sums[p][r], block.y[r]);
  }
}

template <typename Weight, int kRows, int kPanels>
void Panels(const LinearBlock& block) {
  int32_t panel = block.panel_begin;
  for (; panel + kPanels <= block.panel_end; panel += kPanels) {
    Tile<Weight, kRows, kPanels>(block, panel);
  }
  for (; panel < block.panel_end; ++panel) Tile<Weight, kRows, 1>(block, panel);
}

template <typename Weight>
void Rows(const LinearBlock& block) {
  switch (block.rows) {
    case 1:
      return Panels<Weight, 1, 4>(block);
    case 2:
      return Panels<Weight, 2, 4>(block);
    case 3:
      return Panels<Weight, 3, 2>(block);
    case 4:
      return Panels<Weight, 4, 2>(block);
    case 5:
      return Panels<Weight, 5, 2>(block);
    case 6:
      return Panels<Weight, 6, 2>(block);
    case 7:
      return Panels<Weight, 7, 2>(block);
    default:
      return Panels<Weight, 8, 2>(block);
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
