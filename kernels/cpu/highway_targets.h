// Which instruction sets the kernels are compiled for: AVX-512, AVX2, SSE4 and the baseline (NEON
// on ARM). The ones left out differ from these by nothing that the kernels use.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
