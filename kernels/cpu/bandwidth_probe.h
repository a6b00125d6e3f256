// What this machine's memory and cores can give: the yardstick of benchmarks and plans.
#pragma once

#include <cstdint>

namespace antiphon::kernels::cpu {

// Bytes per second that `threads` threads, each bound to a core, read together from memory: the
// best of several passes over `bytes` of fresh memory (1 GiB is beyond any cache). Takes a second
// or so.
double MeasureReadBandwidth(int threads, int64_t bytes = int64_t{1} << 30);

// Multiply-adds per second of the float32 linear kernel on weights that stay in each core's cache.
// Takes a tenth of a second.
double MeasureMultiplyAdds(int threads);

}  // namespace antiphon::kernels::cpu
