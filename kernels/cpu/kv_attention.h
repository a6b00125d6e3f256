// One query of one head over a list of pages: scores, softmax, mixed values.
#pragma once

#include "kernels/cpu/kv_kernels.h"

namespace antiphon::kernels::cpu {

// What one query reads. Positions count from the first page's begin.
struct KvView {
  const KvChunk* chunks = nullptr;  // [pages]
  int64_t pages = 0;
  int64_t begin = 0, end = 0;       // visible positions
  const std::byte* next = nullptr;  // what the worker reads afterwards
};

// out[head_dim] = softmax(q k^T / sqrt(head_dim)) v. scores: room for pages * 64 floats. `portable`
// leaves out kernels for particular machines (tests compare the two).
void AttendPages(const float* q, int32_t head_dim, const KvView& view, float* scores, float* out,
                 bool portable = false) noexcept;

}  // namespace antiphon::kernels::cpu
