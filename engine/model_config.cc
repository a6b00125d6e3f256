#include "engine/model_config.h"

#include <algorithm>

namespace antiphon::engine {

float NormEps(NormKind kind) {
  return kind == NormKind::kRmsNormF32 || kind == NormKind::kLayerNormF32 ? 1e-8F : 1e-5F;
}

bool IsLayerNorm(NormKind kind) {
  return kind == NormKind::kLayerNorm || kind == NormKind::kLayerNormF32;
}

int LmConfig::max_delay() const { return *std::max_element(delays.begin(), delays.end()); }

int LmConfig::agent_codes() const { return family == Family::kPersonaPlex ? n_q / 2 : dep_q; }

int LmConfig::user_codes() const { return n_q - agent_codes(); }

int MimiConfig::hop() const {
  int product = 1;
  for (const int ratio : ratios) product *= ratio;
  return product;
}

int MimiConfig::resample_stride() const {
  return static_cast<int>(sample_rate_hz / frame_rate_hz) / hop();
}

}  // namespace antiphon::engine
