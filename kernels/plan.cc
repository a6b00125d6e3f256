#include "kernels/plan.h"

#include <utility>

namespace antiphon::kernels {

int32_t WeightTable::Add(WeightSpec spec) {
  const auto [it, is_new] = index_.try_emplace(spec.name, static_cast<int32_t>(specs_.size()));
  if (is_new) specs_.push_back(std::move(spec));
  return it->second;
}

}  // namespace antiphon::kernels
