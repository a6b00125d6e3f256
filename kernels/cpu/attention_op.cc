#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kv_attention.h"
#include "kernels/cpu/op_shares.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/work_share.h"

namespace antiphon::kernels::cpu {

// cos and sin of a step's angles are shared by all its heads.
void RopeAppendOp(const Run& run, const Op& op, int part, int parts) {
  const float* frequencies = run.weights.Vector(op.weight);
  const int32_t half = op.head_dim / 2;
  ForSteps(run, op, part, parts, [&](const Control::Rows& rows, int32_t r, int32_t t) {
    const int64_t p = FirstPosition(op, rows.rows[r]) + t;
    float* q = run.arenas.Row(op.in, rows, r) + t * op.in_step;
    float* k = q + op.heads * op.head_dim;
    const float* v = k + op.kv_heads * op.head_dim;
    if (op.rope != Rope::kNone) {
      const int32_t stride = op.rope == Rope::kInterleaved ? 2 : 1;
      const int32_t imaginary = op.rope == Rope::kInterleaved ? 1 : half;
      for (int32_t j = 0; j < half; ++j) {
        const float angle = frequencies[j] * static_cast<float>(p);
        const auto c = static_cast<float>(std::cos(double{angle}));
        const auto s = static_cast<float>(std::sin(double{angle}));
        // q and k heads follow each other.
        for (int32_t h = 0; h < op.heads + op.kv_heads; ++h) {
          float& re = q[h * op.head_dim + j * stride];
          float& im = q[h * op.head_dim + j * stride + imaginary];
          const float a = re, b = im;
          re = a * c - b * s;
          im = a * s + b * c;
        }
      }
    }
    if (op.kv_layer >= 0) {
      run.kv.Append(run.control.kv_pages, rows.rows[r].slot, p, op.kv_layer, k, v);
      return;
    }
    float* keys = run.arenas.Row(op.aux, rows, r);
    float* values = run.arenas.Row(op.aux2, rows, r);
    const size_t bytes = static_cast<size_t>(op.head_dim) * sizeof(float);
    for (int32_t h = 0; h < op.kv_heads; ++h) {
      const int64_t at = (int64_t{h} * op.capacity + p % op.capacity) * op.head_dim;
      std::memcpy(keys + at, k + h * op.head_dim, bytes);
      std::memcpy(values + at, v + h * op.head_dim, bytes);
    }
  });
}

namespace {

// One query of one head over the slot's pages.
void AttendPaged(const Run& run, const Op& op, const Row& row, const float* q, int32_t head,
                 const WorkerScratch& scratch, float* out) {
  const Window window = VisiblePositions(op, row.position, 0);
  const int64_t first = window.begin / kKvPage, last = (window.end - 1) / kKvPage;
  const int64_t origin = first * kKvPage;
  const int32_t kv_head = head / (op.heads / op.kv_heads);
  const auto chunk = [&](int64_t page, int32_t which) {
    return run.kv.Chunk(run.control.kv_pages, row.slot, page, row.position, op.kv_layer, which);
  };
  for (int64_t page = first; page <= last; ++page) {
    scratch.chunks[page - first] = chunk(page, kv_head);
  }
  KvView view{scratch.chunks, last - first + 1, window.begin - origin, window.end - origin,
              nullptr};
  view.next = chunk(first, std::min(kv_head + 1, op.kv_heads - 1)).keys;
  AttendPages(q, op.head_dim, view, scratch.scores, out);
}

}  // namespace

void AttentionOp(const Run& run, const Op& op, int part, int parts, const WorkerScratch& scratch) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  const int32_t group = op.heads / op.kv_heads;
  const int64_t queries = int64_t{rows.count} * op.steps * op.heads;
  const Share share = ShareOf(queries, part, parts);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const auto h = static_cast<int32_t>(i % op.heads);
    const auto t = static_cast<int32_t>(i / op.heads % op.steps);
    const auto r = static_cast<int32_t>(i / op.heads / op.steps);
    if (op.kv_layer >= 0) {
      AttendPaged(run, op, rows.rows[r], run.arenas.Row(op.in, rows, r) + h * op.head_dim, h,
                  scratch, run.arenas.Row(op.out, rows, r) + h * op.head_dim);
      continue;
    }
    const Window window = VisiblePositions(op, FirstPosition(op, rows.rows[r]), t);
    const int64_t head = int64_t{h / group} * op.capacity * op.head_dim;
    AttendHead(run.arenas.Row(op.in, rows, r) + t * op.in_step + h * op.head_dim,
               run.arenas.Row(op.aux, rows, r) + head, run.arenas.Row(op.aux2, rows, r) + head,
               window.begin, window.end, op.capacity, op.head_dim, scratch.scores,
               run.arenas.Row(op.out, rows, r) + t * op.out_step + h * op.head_dim);
  }
}

}  // namespace antiphon::kernels::cpu
