// Ops on tokens, which are integer work on a few bytes per row and the same for every executor
// whose arenas are host memory.
#pragma once

#include "kernels/arena_view.h"
#include "kernels/sampling.h"
#include "kernels/token_grid.h"

namespace antiphon::kernels {

// Row of a table that a token stands for, or -1 for none (section 3.3: a two-stream token holds
// left + rows * (right + 1)).
inline int64_t TableRow(TokenPart part, int32_t token, int64_t rows) {
  if (token < 0) return -1;
  int64_t row = token;
  if (part == TokenPart::kLeft) row = token % rows;
  if (part == TokenPart::kRight) row = token / rows - 1;
  return row < rows ? row : -1;
}

// kTokensIn and kTokensOut for all rows, in order (rows of a prefill may be of the same slot).
inline void TokensInRows(const TokenLayout& layout, const Op& op, const ArenaView& arenas,
                         const Control& control) {
  const Control::Rows& rows = control.stages[static_cast<int>(op.stage)];
  for (int32_t r = 0; r < rows.count; ++r) {
    TokensIn(layout, rows.rows[r], arenas.Tokens(layout.grid, rows, r),
             arenas.Tokens(layout.user_codes, rows, r), arenas.Tokens(layout.given, rows, r),
             arenas.Tokens(layout.inputs, rows, r), arenas.Tokens(layout.provided, rows, r));
  }
}

inline void TokensOutRows(const TokenLayout& layout, const Op& op, const ArenaView& arenas,
                          const Control& control) {
  const Control::Rows& rows = control.stages[static_cast<int>(op.stage)];
  for (int32_t r = 0; r < rows.count; ++r) {
    TokensOut(layout, rows.rows[r], arenas.Tokens(layout.grid, rows, r),
              arenas.Tokens(layout.provided, rows, r), arenas.Tokens(layout.sampled, rows, r),
              arenas.Tokens(layout.out_tokens, rows, r),
              arenas.Tokens(layout.agent_codes, rows, r));
  }
}

// kSample for one row. candidates: the caller's scratch, op.n entries.
inline void SampleRow(const TokenLayout& layout, const Op& op, const ArenaView& arenas,
                      const Control::Rows& rows, int32_t r, Candidate* candidates) {
  const Row& row = rows.rows[r];
  const float temperature = op.is_text ? row.text_temperature : row.audio_temperature;
  const int32_t top_k = op.is_text ? row.text_top_k : row.audio_top_k;
  int32_t token = kZeroToken;
  if (op.is_text || row.position >= row.audio_delay) {
    token = SampleToken(arenas.Row(op.in, rows, r), op.n, temperature, top_k, candidates, nullptr,
                        row.seed, row.position, op.index);
  }
  arenas.Tokens(layout.sampled, rows, r)[op.index] = token;
  const int32_t provided = arenas.Tokens(layout.provided, rows, r)[op.index];
  arenas.Tokens(layout.used, rows, r)[op.index] = provided != kNotGiven ? provided : token;
}

}  // namespace antiphon::kernels
