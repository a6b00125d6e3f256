// int4 pages with AVX-512 VNNI: sixteen-level values times bytes, four products a lane and
// instruction. The query and the weights enter as bytes here: that adds 0.7 % to a product whose
// int4 side carries 9 % (a level is a fifteenth of four to five deviations), and keeps a core at
// its memory's pace, which wider operands do not.
#pragma once

#include "kernels/cpu/kv_kernels.h"

namespace antiphon::kernels::cpu {

// Whether this machine has the instructions.
bool HasVnni() noexcept;

// What meets a page's nibbles: x ~ unit * bytes, and what the levels' offsets add.
struct Int4Operand {
  alignas(64) int8_t bytes[kMaxHeadDim + 16];
  float unit = 0.0F, shift = 0.0F;
};

// PageScores and MixPage (kv_kernels.h) for int4 chunks, in two steps: preparing the next page's
// operand before this page is run hides the chain of its scaling. REQUIRES: HasVnni().
void PrepareInt4Scores(const KvQuery& query, const KvChunk& chunk, Int4Operand* operand) noexcept;
void RunInt4Scores(const Int4Operand& operand, int32_t head_dim, const KvChunk& chunk,
                   const std::byte* ahead, float* scores) noexcept;
// weights: [64].
void PrepareInt4Mix(const float* weights, int32_t head_dim, const KvChunk& chunk,
                    Int4Operand* operand) noexcept;
void RunInt4Mix(const Int4Operand& operand, int32_t head_dim, const KvChunk& chunk,
                const std::byte* ahead, float* y) noexcept;

}  // namespace antiphon::kernels::cpu
