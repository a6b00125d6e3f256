// A plan: the complete list of operations of a tick with every address, and the weights it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/kv_cache.h"
#include "kernels/op.h"
#include "kernels/token_grid.h"

namespace antiphon::kernels {

enum class WeightKind : uint8_t {
  kMatrix,  // [rows, cols] of a kLinear
  kTable,   // [rows, cols], single rows are read (embeddings, codebooks, depthwise kernels)
  kVector,  // [1, cols]: norms, biases, scales, frequencies; always float32
};

// A weight as an executor finds it when it packs: shape and a reader that gives float rows.
struct WeightSpec {
  std::string name;
  WeightKind kind = WeightKind::kMatrix;
  int64_t rows = 0;
  int64_t cols = 0;
  bool bf16 = false;  // the checkpoint holds bf16 (or less), so that bf16 storage loses nothing
  bool keep = false;  // a matrix that executors do not quantize (see engine/plan_builder.h)
  // Fills out with rows [begin, begin + count), row-major.
  std::function<void(int64_t begin, int64_t count, float* out)> read;
};

// The weights of all plans of a model; each is added once, by name.
class WeightTable {
 public:
  // Index of the weight named spec.name, which is added if it is new.
  int32_t Add(WeightSpec spec);
  const std::vector<WeightSpec>& specs() const { return specs_; }

 private:
  std::vector<WeightSpec> specs_;
  std::map<std::string, int32_t> index_;
};

struct Plan {
  int32_t max_rows = 0;  // batch bucket: most rows of any stage
  std::vector<Op> ops;   // stages in order of execution
  int64_t scratch_elements = 0;
  TokenLayout tokens;  // of kTokensIn / kTokensOut
  // Named intermediate results that a check may read after a run; kept alive in scratch only if
  // the plan was built with taps.
  struct Tap {
    Ref ref;
    int32_t steps = 1;
    int32_t width = 0;
    int64_t step = 0;  // elements between steps
  };
  std::map<std::string, Tap> taps;
};

// Sizes of what outlives a run: arenas, in elements, and the paged cache.
struct ArenaSizes {
  int64_t state = 0;
  int64_t io = 0;
  KvShape kv = {};
};

}  // namespace antiphon::kernels
