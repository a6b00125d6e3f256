// The token timeline of the model family (tests/golden/ARCHITECTURE.md 3.4 and 4.1): which tokens
// go into an evaluation, where its results are stored, and which aligned vector comes out.
//
// Think of a grid g[stream][position]. Evaluation e reads position e and produces position e + 1.
// Values given from outside for undelayed time w are written at position w + delay. Moshi gives
// evaluation e the caller's frame of time e; PersonaPlex that of time e + 1 (`lead` 1), so that
// they stand at the target position and force the depth transformer. A slot keeps a ring of
// positions; each cell carries its position as a tag, so that nothing has to be cleared as the ring
// turns.
//
// Plain functions on plain memory: every executor (the device too) runs this same code.
#pragma once

#include <cstdint>

#include "kernels/op.h"

namespace antiphon::kernels {

inline constexpr int kMaxStreams = 128;

struct TokenLayout {
  int32_t streams = 0;      // text + n_q
  int32_t agent = 0;        // streams 1..agent are decoded to the agent's speech
  int32_t generated = 0;    // dep_q: streams 1..generated come from the depth transformer
  int32_t depth_steps = 0;  // those of them that are computed
  int32_t ring = 0;         // positions kept, RingPositions(max_delay)
  int32_t max_delay = 0;
  int32_t lead = 0;          // 0 Moshi, 1 PersonaPlex
  bool force_given = false;  // values at the target position replace sampled ones (PersonaPlex)
  int32_t text_initial = 0;  // initial tokens: text_card and card
  int32_t audio_initial = 0;
  int32_t delays[kMaxStreams] = {};
  // [slot, 2, streams, ring]: tokens, then tags.
  Ref grid;
  Ref user_codes;   // [slot, streams - 1 - agent]: from the encode stage
  Ref agent_codes;  // [slot, agent]: for the decode stage
  Ref given;        // io [row, streams]: values from outside, or kNotGiven
  Ref out_tokens;   // io [row, streams]: the aligned vector, or kNoToken
  Ref inputs;       // scratch [row, streams]: tokens to embed
  Ref provided;     // scratch [row, 1 + generated]: forced tokens at the target, or kNotGiven
  Ref sampled;      // scratch [row, 1 + generated]: as drawn
  Ref used;         // scratch [row, 1 + generated]: as fed on (provided, else sampled)
};

constexpr int32_t RingPositions(int32_t max_delay) { return 2 * max_delay + 4; }
constexpr int64_t GridElements(int32_t streams, int32_t ring) {
  return int64_t{2} * streams * ring;
}

// What a cell carries beside its token: the position it stands for, and whether the token was
// given.
constexpr int32_t GridTag(int64_t position, bool given) {
  return static_cast<int32_t>(position) * 2 + (given ? 1 : 0);
}

// kTokensIn for one row. grid: [2, streams, ring]; user_codes, given, inputs, provided as above,
// this row's or slot's.
inline void TokensIn(const TokenLayout& layout, const Row& row, int32_t* grid,
                     const int32_t* user_codes, const int32_t* given, int32_t* inputs,
                     int32_t* provided) {
  const int32_t cells = layout.streams * layout.ring;
  int32_t* tags = grid + cells;
  // A new tenant: positions begin anew, so tags of the old one must not match.
  if (row.position == 0) {
    for (int32_t i = 0; i < cells; ++i) tags[i] = -1;
  }
  const int64_t written = row.position + layout.lead;
  const int64_t target = row.position + 1;
  for (int32_t s = 0; s < layout.streams; ++s) {
    int32_t value = given[s];
    if (row.user_from_encoder && s > layout.agent) value = user_codes[s - 1 - layout.agent];
    if (value != kNotGiven) {
      const int64_t position = written + layout.delays[s];
      const auto cell = static_cast<int32_t>(s * layout.ring + position % layout.ring);
      grid[cell] = value;
      tags[cell] = GridTag(position, true);
    }
    const auto cell = static_cast<int32_t>(s * layout.ring + row.position % layout.ring);
    if (row.position <= layout.delays[s]) {
      inputs[s] = s == 0 ? layout.text_initial : layout.audio_initial;
    } else {
      inputs[s] = tags[cell] / 2 == row.position && tags[cell] >= 0 ? grid[cell] : kZeroToken;
    }
  }
  for (int32_t s = 0; s <= layout.generated; ++s) {
    provided[s] = kNotGiven;
    if (!layout.force_given) continue;
    const auto cell = static_cast<int32_t>(s * layout.ring + target % layout.ring);
    if (target <= layout.delays[s]) {
      provided[s] = s == 0 ? layout.text_initial : layout.audio_initial;
    } else if (tags[cell] == GridTag(target, true)) {
      provided[s] = grid[cell];
    }
  }
  if (row.forced_text != kNotGiven) provided[0] = row.forced_text;
}

// kTokensOut for one row: stores what was drawn at the target position, gives the aligned vector
// and the agent's codes.
inline void TokensOut(const TokenLayout& layout, const Row& row, int32_t* grid,
                      const int32_t* provided, const int32_t* sampled, int32_t* out_tokens,
                      int32_t* agent_codes) {
  int32_t* tags = grid + layout.streams * layout.ring;
  const int64_t target = row.position + 1;
  for (int32_t s = 0; s <= layout.depth_steps; ++s) {
    int32_t value = provided[s] != kNotGiven ? provided[s] : sampled[s];
    if (s > 0 && row.position < layout.delays[s] + row.audio_delay && row.audio_delay > 0) {
      value = kZeroToken;
    }
    const auto cell = static_cast<int32_t>(s * layout.ring + target % layout.ring);
    grid[cell] = value;
    tags[cell] = GridTag(target, false);
  }
  for (int32_t s = 0; s < layout.streams; ++s) {
    int32_t value = kNoToken;
    if (target > layout.max_delay) {
      const int64_t position = target - layout.max_delay + layout.delays[s];
      const auto cell = static_cast<int32_t>(s * layout.ring + position % layout.ring);
      if (position <= layout.delays[s]) {
        value = s == 0 ? layout.text_initial : layout.audio_initial;
      } else {
        value = tags[cell] / 2 == position && tags[cell] >= 0 ? grid[cell] : kNoToken;
      }
    }
    out_tokens[s] = value;
    if (s >= 1 && s <= layout.agent) agent_codes[s - 1] = value;
  }
}

}  // namespace antiphon::kernels
