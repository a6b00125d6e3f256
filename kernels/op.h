// The operations of a tick, as plain structs: what is computed, on which rows, from where to where.
//
// A plan is a flat list of these, written once before the first call and never changed. An op works
// on the rows that its stage's row list names this tick (see Control), each of which stands for one
// frame of one slot. Activations are float32 in time-major layout, [row, step, channel], so that
// the window of a causal convolution is one contiguous vector and every convolution, transposed
// convolution and projection of the model family is the same operation: kLinear.
#pragma once

#include <cstdint>

namespace antiphon::kernels {

// Where data lies. Addresses are in 4-byte elements (float or int32) from the arena's begin.
enum class Arena : uint8_t {
  kScratch,  // lives within one run of a plan
  kState,    // lives as long as a slot's tenant: KV rings, convolution tails, token grids, codes
  kIo,       // host-visible frames and tokens of this tick
};

// A block of `row_stride` elements for every row of the op's stage, or for every slot.
struct Ref {
  Arena arena = Arena::kScratch;
  bool per_slot = false;   // true: block index is the row's slot; false: the row's index
  int64_t offset = 0;      // elements
  int64_t row_stride = 0;  // elements
};

// Parts of a tick that have a row list of their own.
enum class Stage : uint8_t { kEncode, kStep, kDecode, kPrefill };
inline constexpr int kStages = 4;

// Parts of a tick as its costs are told.
enum class Part : uint8_t { kEncode, kTemporal, kDepth, kDecode };
inline constexpr int kParts = 4;

// Widest attention head any executor supports; plan builders refuse wider ones.
inline constexpr int kMaxHeadDim = 512;

constexpr int32_t kNoWeight = -1;
constexpr int32_t kZeroToken = -1;  // embeds to the zero vector
constexpr int32_t kNoToken = -2;    // "nothing": never embedded
constexpr int32_t kNotGiven = -3;   // no value from outside for this stream

enum class OpKind : uint8_t {
  // out[r,t,:] = act(W x + b), x = `taps` pieces of k/taps elements, piece i at in[r] + t*in_step +
  // i*tap_step. With kAccumulate: out[r,t,:] += scale * (W x + b). W: weight [n, k], b, scale: [n].
  kLinear,
  // out[r,t,:] = norm(in[r,t,:]) over n channels. weight [n], bias [n] for layer norms.
  kNorm,
  // out[r,t,:] = act(in[r,t,:]), n channels.
  kActivation,
  // out[r,t,j] = act(in[r,t,j]) * in[r,t,n+j], j < n.
  kGate,
  // Convolution history. out: window [r, pad + steps, n]; its last `steps` rows are new. Fills the
  // first `pad` rows from state `in` [slot, pad, n] (at position 0: zeros, or with `replicate` the
  // first new row), then stores the window's last `pad` rows back to `in`.
  kWindow,
  // Depthwise transposed convolution of stride s = `stride`, kernel k: in: window [r, (k/s - 1) +
  // steps, n], out[r, t*s + j, c] = sum_m w[c, j + m*s] * in[r, t + (k/s - 1) - m, c]. W: [n, k].
  kUpsample,
  // Rotary embedding of q and k in in[r,t,:] = [q: heads*head_dim | k: kv_heads*head_dim | v], then
  // k and v are written to the ring at position p: kv[slot or r, kv_head, p mod capacity, :], or,
  // with kv_layer, to that layer of the paged cache (kv_cache.h). q is rotated in place. weight:
  // frequencies [head_dim / 2].
  kRopeAppend,
  // out[r,t,:] = softmax(q k^T / sqrt(head_dim)) v over the visible positions of the ring, or of
  // the paged cache (one step a row).
  kAttention,
  // out[r,:] (=, or += with kAccumulate) sum over i < count of table_i[index of tokens[r, i]], rows
  // of n. Tables are weights `w`, w+1, ... A token out of [0, rows) adds nothing.
  kEmbed,
  // out[r,:] += sinusoidal position of row position (or `index` with fixed_position), n channels.
  kSinPosition,
  // out[r,t,:] += weight [n].
  kAddVector,
  // out[r,:] = the row's given embedding where Row::use_embedding, in: [r, n]; otherwise unchanged.
  kInject,
  // Token timeline of section 3.4 (see token_grid.h): given values to the grid, inputs out.
  kTokensIn,
  // Sampled tokens to the grid, aligned vector out, agent codes to the decoder.
  kTokensOut,
  // out[r] = token drawn from logits in[r, 0..n); see sampling.h.
  kSample,
  // One level of residual quantization: code = argmax in[r, 0..n) (lowest index wins), tokens out;
  // aux[r, 0..k) -= table w[code].
  kRvqPick,
};

enum class Activation : uint8_t { kNone, kElu, kGelu, kSilu, kRelu, kSigmoid, kTanh };
enum class Norm : uint8_t { kRms, kLayer };
enum class Rope : uint8_t { kNone, kInterleaved, kConcat };
// How kEmbed turns a token into a row: as it is, or one half of a two-stream token (section 3.3).
enum class TokenPart : uint8_t { kWhole, kLeft, kRight };

struct Op {
  OpKind kind{};
  Stage stage{};
  Part part{};
  Activation activation = Activation::kNone;
  Norm norm = Norm::kRms;
  Rope rope = Rope::kNone;
  TokenPart token_part = TokenPart::kWhole;
  bool accumulate = false;
  bool replicate = false;       // kWindow: first row repeated at the start
  bool fixed_position = false;  // position is `index` (depth transformer), not the row's
  bool drop_oldest = false;     // kAttention: a full ring hides its oldest entry (section 4.2)
  bool per_query = false;       // kAttention: every query has a window of its own (one-shot codec)
  bool is_text = false;         // kSample: text parameters, else audio

  int32_t steps = 1;  // time steps per row
  int32_t n = 0;      // output channels
  int32_t k = 0;      // input elements (kLinear), kernel size (kUpsample)
  int32_t taps = 1;
  int64_t tap_step = 0;
  int64_t in_step = 0;  // elements from one time step to the next
  int64_t out_step = 0;
  Ref in, out, aux;  // aux: k ring (attention), provided tokens (kSample), residual (kRvqPick)
  Ref aux2;          // v ring
  int32_t weight = kNoWeight;  // index into the plan's weight table
  int32_t bias = kNoWeight;
  int32_t scale = kNoWeight;
  float eps = 0.0F;
  int32_t pad = 0;     // kWindow
  int32_t stride = 1;  // kUpsample
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t capacity = 0;         // positions in the ring
  int32_t kv_layer = -1;        // layer of the paged cache; -1: aux and aux2 are the rings
  int32_t context = 0;          // visible positions; 0: all
  int32_t index = 0;            // fixed position; stream of kSample; level of kRvqPick
  int32_t count = 0;            // tables of kEmbed
  float max_period = 10000.0F;  // kSinPosition
};

// One row of a stage: a frame of a slot.
struct Row {
  int32_t slot = 0;
  int64_t position = 0;  // frames since reset: of the codec direction, or evaluations of the LM
  // LM stages only.
  uint64_t seed = 0;
  float text_temperature = 0.0F, audio_temperature = 0.0F;
  int32_t text_top_k = 0, audio_top_k = 0;
  int32_t forced_text = kNotGiven;  // replaces the sampled text token
  int32_t audio_delay = 0;          // evaluations before the first audio token (TTS), see 3.7
  bool user_from_encoder = false;   // the caller's codes come from the encode stage
  bool use_embedding = false;       // kInject
};

// All that changes from tick to tick. Written by the host before a run, read by every op.
struct Control {
  struct Rows {
    int32_t count = 0;
    Row* rows = nullptr;
  };
  Rows stages[kStages];
  const int32_t* kv_pages = nullptr;  // page table [slots, slot_pages] (kv_cache.h)
};

}  // namespace antiphon::kernels
