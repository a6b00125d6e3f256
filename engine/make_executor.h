// Executors by their names in options and configuration.
#pragma once

#include <memory>
#include <string>

#include "kernels/executor.h"

namespace antiphon::engine {

// name: "cpu" or "reference"; weights: "auto", "fp32", "bf16", "int8" or "int4" (cpu); threads: 0
// for one per core. Throws InputError naming the field.
std::unique_ptr<kernels::Executor> MakeExecutor(const std::string& name, const std::string& weights,
                                                int threads);

// Format of matrices: "auto", "fp32", "bf16", "int8" or "int4". Throws InputError.
kernels::WeightFormat ParseWeightFormat(const std::string& name);

// Format of keys and values: "auto" (fp32), "fp32", "bf16", "int8" or "int4". Throws InputError
// naming the field.
kernels::KvFormat ParseKvFormat(const std::string& name);

}  // namespace antiphon::engine
