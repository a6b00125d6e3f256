// Quantized linear kernels for x86-64; on other machines there are none.
#pragma once

#include "kernels/cpu/quantized_linear.h"

namespace antiphon::kernels::cpu {

#ifdef __x86_64__
bool HasAvx2Kernel() noexcept;
void RunAvx2(const QuantizedBlock& block) noexcept;
// AVX-512 with VNNI, 512-bit registers.
bool HasVnniKernel() noexcept;
void RunVnni(const QuantizedBlock& block) noexcept;
// Tiles of AMX. The first call asks the system for them.
bool HasAmxKernel() noexcept;
void RunAmx(const QuantizedBlock& block) noexcept;
#endif

}  // namespace antiphon::kernels::cpu
