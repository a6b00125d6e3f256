// The smaller kernels, vectorised: norms, activations, gates, attention over one head, rotation,
// sums of embedding rows. Plain pointers, any alignment; the instruction set is chosen at run time.
#pragma once

#include <cstdint>

#include "kernels/op.h"

namespace antiphon::kernels::cpu {

// y[n] = norm(x[n]); bias may be null.
void Normalize(Norm kind, float eps, const float* weight, const float* bias, const float* x,
               float* y, int32_t n) noexcept;

// y[n] = act(x[n]); x and y may be the same.
void ActivateVector(Activation activation, const float* x, float* y, int64_t n) noexcept;

// y[n] = act(x[n]) * x[n + j].
void GateVector(Activation activation, const float* x, float* y, int32_t n) noexcept;

// y[n] += x[n], and y[n] -= x[n].
void AddTo(const float* x, float* y, int32_t n) noexcept;
void AddBf16To(const uint16_t* x, float* y, int32_t n) noexcept;
void SubtractFrom(const float* x, float* y, int32_t n) noexcept;

// One query of one head over positions [begin, end) of a ring: keys and values [capacity,
// head_dim]. scores: scratch for end - begin floats.
void AttendHead(const float* q, const float* keys, const float* values, int64_t begin, int64_t end,
                int32_t capacity, int32_t head_dim, float* scores, float* y) noexcept;

// levels[32] = x[32] / scale rounded, the largest magnitude becoming 127; returns their sum.
int32_t QuantizeGroup(const float* x, int8_t* levels, float* scale) noexcept;

// Index of the largest of n values, the lowest where several are equal.
int32_t ArgMax(const float* x, int32_t n) noexcept;

}  // namespace antiphon::kernels::cpu
