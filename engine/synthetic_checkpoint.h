// A checkpoint without files, for benchmarks and plans: every tensor of a configuration by its
// published name and shape, with random contents. All tensors read the same few megabytes, mapped
// one after another to the length of the largest, so that a 7B model takes no memory of its own.
#pragma once

#include "engine/checkpoint.h"
#include "engine/model_config.h"

namespace antiphon::engine {

// Values are uniform in about +-0.03, LM tensors bf16 and codec tensors F32, as published. Either
// configuration may be null. Throws InputError if the memory cannot be mapped.
Checkpoint MakeSyntheticCheckpoint(const std::string& name, const LmConfig* lm,
                                   const MimiConfig* mimi);

}  // namespace antiphon::engine
