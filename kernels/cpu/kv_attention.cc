#include "kernels/cpu/kv_attention.h"

#include <algorithm>

#include "kernels/cpu/kv_kernels_vnni.h"
#include "kernels/cpu/kv_layout.h"

namespace antiphon::kernels::cpu {
namespace {

// Walks a list of pages, and knows where memory is to be fetched meanwhile. Keys, then values, then
// what comes next are one stream.
class PageWalk {
 public:
  PageWalk(const KvView& view, int32_t head_dim) : view_(view) {
    bytes_ = KvLayout(head_dim).key_bytes(view.chunks[view.pages / 2].format);
    lead_ = (kFetchAhead + bytes_ - 1) / bytes_;
  }
  const std::byte* AheadOfKeys(int64_t page) const { return At(page + lead_); }
  const std::byte* AheadOfValues(int64_t page) const { return At(view_.pages + page + lead_); }

 private:
  const std::byte* At(int64_t read) const {
    if (read < view_.pages) return view_.chunks[read].keys;
    if (read < 2 * view_.pages) return view_.chunks[read - view_.pages].values;
    return view_.next + (read - 2 * view_.pages) * bytes_;
  }
  const KvView& view_;
  int64_t bytes_, lead_;
};

// Runs body(page, operand) over a stretch of int4 pages, each operand prepared one page early.
template <typename Prepare, typename Body>
void Pipelined(int64_t begin, int64_t end, Prepare prepare, Body body) {
  Int4Operand operands[2];
  prepare(begin, &operands[begin % 2]);
  for (int64_t page = begin; page < end; ++page) {
    if (page + 1 < end) prepare(page + 1, &operands[(page + 1) % 2]);
    body(page, operands[page % 2]);
  }
}

// Calls packed(begin, end) for stretches of int4 pages and plain(page) for all others.
template <typename Packed, typename Plain>
void ForStretches(const KvView& view, bool portable, Packed packed, Plain plain) {
  const bool fast = !portable && HasVnni();
  const auto is_packed = [&](int64_t page) {
    return fast && view.chunks[page].format == KvFormat::kInt4;
  };
  for (int64_t page = 0; page < view.pages;) {
    int64_t end = page;
    while (end < view.pages && is_packed(end)) ++end;
    if (end > page) {
      packed(page, end);
      page = end;
    } else {
      plain(page++);
    }
  }
}

}  // namespace

void AttendPages(const float* q, int32_t head_dim, const KvView& view, float* scores, float* out,
                 bool portable) noexcept {
  const PageWalk walk(view, head_dim);
  KvQuery query;
  PrepareQuery(q, head_dim, &query);
  ForStretches(
      view, portable,
      [&](int64_t begin, int64_t end) {
        Pipelined(
            begin, end,
            [&](int64_t page, Int4Operand* operand) {
              PrepareInt4Scores(query, view.chunks[page], operand);
            },
            [&](int64_t page, const Int4Operand& operand) {
              RunInt4Scores(operand, head_dim, view.chunks[page], walk.AheadOfKeys(page),
                            scores + page * kKvPage);
            });
      },
      [&](int64_t page) {
        PageScores(query, view.chunks[page], walk.AheadOfKeys(page), scores + page * kKvPage);
      });
  const float total = SoftmaxWeights(scores, view.begin, view.end, view.pages * kKvPage);
  alignas(64) float sums[kMaxHeadDim] = {};
  ForStretches(
      view, portable,
      [&](int64_t begin, int64_t end) {
        Pipelined(
            begin, end,
            [&](int64_t page, Int4Operand* operand) {
              PrepareInt4Mix(scores + page * kKvPage, head_dim, view.chunks[page], operand);
            },
            [&](int64_t page, const Int4Operand& operand) {
              RunInt4Mix(operand, head_dim, view.chunks[page], walk.AheadOfValues(page), sums);
            });
      },
      [&](int64_t page) {
        const int64_t at = page * kKvPage;
        const auto begin = static_cast<int32_t>(std::max(view.begin - at, int64_t{0}));
        const auto end = static_cast<int32_t>(std::min(view.end - at, int64_t{kKvPage}));
        MixPage(scores + at, begin, end, head_dim, view.chunks[page], walk.AheadOfValues(page),
                sums);
      });
  for (int32_t d = 0; d < head_dim; ++d) out[d] = sums[d] / total;
}

}  // namespace antiphon::kernels::cpu
