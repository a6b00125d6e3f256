// Model shapes by name, for benchmarks and plans: dimensions without weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/model_config.h"

namespace antiphon::engine {

struct ModelShape {
  std::string name;
  std::optional<LmConfig> lm;
  std::optional<MimiConfig> mimi;
};

// Names that FindModelShape knows besides files: "pico" (the embedded model's dimensions), "mid"
// (1024 x 16 layers), "moshi-7b", "personaplex-7b", "mimi" (the codec alone); all but pico with the
// published codec.
const std::vector<std::string>& ModelShapeNames();

// A shape by its name, from a Kyutai-style config.json (with the published codec), or from a
// checkpoint folder. Throws InputError.
ModelShape FindModelShape(const std::string& name_or_path);

// A checkpoint of this shape with random weights (synthetic_checkpoint.h).
Checkpoint MakeSyntheticCheckpoint(const ModelShape& shape);

}  // namespace antiphon::engine
