#include "kernels/reference/reference_ops.h"

#include <cmath>
#include <cstring>

namespace antiphon::kernels::reference {

double Activate(Activation activation, double x) noexcept {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kElu:
      return x > 0.0 ? x : std::expm1(x);
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return x > 0.0 ? x : 0.0;
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

namespace {

// Calls body(rows, row index) for every row of the op's stage.
template <typename Body>
void ForRows(const Run& run, const Op& op, Body body) {
  const Control::Rows& rows = run.control.stages[static_cast<int>(op.stage)];
  for (int32_t r = 0; r < rows.count; ++r) body(rows, r);
}

void Linear(const Run& run, const Op& op) {
  const float* w = run.weights.Data(op.weight);
  const float* bias = run.weights.Data(op.bias);
  const float* scale = run.weights.Data(op.scale);
  const int32_t piece = op.k / op.taps;
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const float* in = run.arenas.Row(op.in, rows, r);
    float* out = run.arenas.Row(op.out, rows, r);
    for (int32_t t = 0; t < op.steps; ++t) {
      for (int32_t j = 0; j < op.n; ++j) {
        const float* row = w + int64_t{j} * op.k;
        double sum = bias != nullptr ? bias[j] : 0.0;
        for (int32_t tap = 0; tap < op.taps; ++tap) {
          const float* x = in + t * op.in_step + tap * op.tap_step;
          for (int32_t i = 0; i < piece; ++i) sum += double{row[tap * piece + i]} * x[i];
        }
        sum = Activate(op.activation, sum);
        if (scale != nullptr) sum *= scale[j];
        float& y = out[t * op.out_step + j];
        y = static_cast<float>(op.accumulate ? y + sum : sum);
      }
    }
  });
}

void Normalize(const Run& run, const Op& op) {
  const float* weight = run.weights.Data(op.weight);
  const float* bias = run.weights.Data(op.bias);
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    for (int32_t t = 0; t < op.steps; ++t) {
      const float* x = run.arenas.Row(op.in, rows, r) + t * op.in_step;
      float* y = run.arenas.Row(op.out, rows, r) + t * op.out_step;
      double mean = 0.0;
      if (op.norm == Norm::kLayer) {
        for (int32_t i = 0; i < op.n; ++i) mean += x[i];
        mean /= op.n;
      }
      double variance = 0.0;
      for (int32_t i = 0; i < op.n; ++i) variance += (x[i] - mean) * (x[i] - mean);
      const double inverse = 1.0 / std::sqrt(variance / op.n + double{op.eps});
      for (int32_t i = 0; i < op.n; ++i) {
        const double shift = bias != nullptr ? bias[i] : 0.0;
        y[i] = static_cast<float>((x[i] - mean) * inverse * weight[i] + shift);
      }
    }
  });
}

void Activations(const Run& run, const Op& op) {
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    for (int32_t t = 0; t < op.steps; ++t) {
      const float* x = run.arenas.Row(op.in, rows, r) + t * op.in_step;
      float* y = run.arenas.Row(op.out, rows, r) + t * op.out_step;
      for (int32_t i = 0; i < op.n; ++i) y[i] = static_cast<float>(Activate(op.activation, x[i]));
    }
  });
}

void Gate(const Run& run, const Op& op) {
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    for (int32_t t = 0; t < op.steps; ++t) {
      const float* x = run.arenas.Row(op.in, rows, r) + t * op.in_step;
      float* y = run.arenas.Row(op.out, rows, r) + t * op.out_step;
      for (int32_t i = 0; i < op.n; ++i) {
        y[i] = static_cast<float>(Activate(op.activation, x[i]) * x[op.n + i]);
      }
    }
  });
}

void ConvolutionWindow(const Run& run, const Op& op) {
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    float* tail = run.arenas.Row(op.in, rows, r);
    float* window = run.arenas.Row(op.out, rows, r);
    const auto width = static_cast<size_t>(op.n);
    const auto pad = static_cast<size_t>(op.pad);
    const auto steps = static_cast<size_t>(op.steps);
    if (rows.rows[r].position > 0) {
      std::memcpy(window, tail, pad * width * sizeof(float));
    } else if (op.replicate) {
      for (size_t p = 0; p < pad; ++p) {
        std::memcpy(window + p * width, window + pad * width, width * sizeof(float));
      }
    } else {
      std::memset(window, 0, pad * width * sizeof(float));
    }
    std::memcpy(tail, window + steps * width, pad * width * sizeof(float));
  });
}

void Upsample(const Run& run, const Op& op) {
  const float* w = run.weights.Data(op.weight);
  const int32_t history = op.k / op.stride - 1;
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const float* in = run.arenas.Row(op.in, rows, r);
    float* out = run.arenas.Row(op.out, rows, r);
    for (int32_t t = 0; t < op.steps; ++t) {
      for (int32_t j = 0; j < op.stride; ++j) {
        for (int32_t c = 0; c < op.n; ++c) {
          double sum = 0.0;
          for (int32_t m = 0; m <= history; ++m) {
            sum += double{w[int64_t{c} * op.k + j + m * op.stride]} *
                   in[(t + history - m) * op.in_step + c];
          }
          out[(t * op.stride + j) * op.out_step + c] = static_cast<float>(sum);
        }
      }
    }
  });
}

// Rotates one head by position p. The angle is the float32 product that the reference
// implementation computes, so that large positions agree.
void Rotate(Rope kind, const float* frequencies, int32_t head_dim, int64_t p, float* x) {
  const int32_t half = head_dim / 2;
  for (int32_t j = 0; j < half; ++j) {
    const float angle = frequencies[j] * static_cast<float>(p);
    const double c = std::cos(double{angle}), s = std::sin(double{angle});
    float& re = kind == Rope::kInterleaved ? x[2 * j] : x[j];
    float& im = kind == Rope::kInterleaved ? x[2 * j + 1] : x[j + half];
    const double a = re, b = im;
    re = static_cast<float>(a * c - b * s);
    im = static_cast<float>(a * s + b * c);
  }
}

void RopeAppend(const Run& run, const Op& op) {
  const float* frequencies = run.weights.Data(op.weight);
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const int64_t first = FirstPosition(op, rows.rows[r]);
    const bool paged = op.kv_layer >= 0;
    float* keys = paged ? nullptr : run.arenas.Row(op.aux, rows, r);
    float* values = paged ? nullptr : run.arenas.Row(op.aux2, rows, r);
    for (int32_t t = 0; t < op.steps; ++t) {
      const int64_t p = first + t;
      float* q = run.arenas.Row(op.in, rows, r) + t * op.in_step;
      float* k = q + op.heads * op.head_dim;
      const float* v = k + op.kv_heads * op.head_dim;
      if (op.rope != Rope::kNone) {
        for (int32_t h = 0; h < op.heads; ++h) {
          Rotate(op.rope, frequencies, op.head_dim, p, q + h * op.head_dim);
        }
        for (int32_t h = 0; h < op.kv_heads; ++h) {
          Rotate(op.rope, frequencies, op.head_dim, p, k + h * op.head_dim);
        }
      }
      if (paged) {
        run.kv.Append(run.control.kv_pages, rows.rows[r].slot, p, op.kv_layer, k, v);
        continue;
      }
      for (int32_t h = 0; h < op.kv_heads; ++h) {
        const int64_t at = (int64_t{h} * op.capacity + p % op.capacity) * op.head_dim;
        const auto bytes = static_cast<size_t>(op.head_dim) * sizeof(float);
        std::memcpy(keys + at, k + h * op.head_dim, bytes);
        std::memcpy(values + at, v + h * op.head_dim, bytes);
      }
    }
  });
}

// [head_dim] of a position, from the op's ring or the paged cache.
const float* KeyOrValue(const Run& run, const Op& op, const Control::Rows& rows, int32_t r,
                        int32_t head, int64_t p, bool value) {
  if (op.kv_layer >= 0) {
    const int32_t slot = rows.rows[r].slot;
    return value ? run.kv.Value(run.control.kv_pages, slot, p, op.kv_layer, head)
                 : run.kv.Key(run.control.kv_pages, slot, p, op.kv_layer, head);
  }
  const float* ring = run.arenas.Row(value ? op.aux2 : op.aux, rows, r);
  return ring + (int64_t{head} * op.capacity + p % op.capacity) * op.head_dim;
}

void Attention(const Run& run, const Op& op) {
  const double scale = 1.0 / std::sqrt(double{static_cast<float>(op.head_dim)});
  const int32_t group = op.heads / op.kv_heads;
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const int64_t first = FirstPosition(op, rows.rows[r]);
    for (int32_t t = 0; t < op.steps; ++t) {
      const Window window = VisiblePositions(op, first, t);
      for (int32_t h = 0; h < op.heads; ++h) {
        const float* q = run.arenas.Row(op.in, rows, r) + t * op.in_step + h * op.head_dim;
        float* y = run.arenas.Row(op.out, rows, r) + t * op.out_step + h * op.head_dim;
        const auto key_at = [&](int64_t p) {
          return KeyOrValue(run, op, rows, r, h / group, p, false);
        };
        const auto value_at = [&](int64_t p) {
          return KeyOrValue(run, op, rows, r, h / group, p, true);
        };
        const auto score = [&](int64_t p) {
          const float* key = key_at(p);
          double dot = 0.0;
          for (int32_t i = 0; i < op.head_dim; ++i) dot += double{q[i]} * key[i];
          return dot * scale;
        };
        double peak = -INFINITY;
        for (int64_t p = window.begin; p < window.end; ++p) peak = std::fmax(peak, score(p));
        double total = 0.0;
        double sums[kMaxHeadDim] = {};
        for (int64_t p = window.begin; p < window.end; ++p) {
          const double weight = std::exp(score(p) - peak);
          total += weight;
          const float* value = value_at(p);
          for (int32_t i = 0; i < op.head_dim; ++i) sums[i] += weight * value[i];
        }
        for (int32_t i = 0; i < op.head_dim; ++i) y[i] = static_cast<float>(sums[i] / total);
      }
    }
  });
}

void Embed(const Run& run, const Op& op) {
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const int32_t* tokens = run.arenas.Tokens(op.in, rows, r);
    float* out = run.arenas.Row(op.out, rows, r);
    for (int32_t i = 0; i < op.n; ++i) {
      double sum = op.accumulate ? out[i] : 0.0;
      for (int32_t table = 0; table < op.count; ++table) {
        const Weights::Entry& entry = run.weights.At(op.weight + table);
        const int64_t row = TableRow(op.token_part, tokens[table], entry.rows);
        if (row >= 0) sum += entry.data[static_cast<size_t>(row * entry.cols + i)];
      }
      out[i] = static_cast<float>(sum);
    }
  });
}

void SinPosition(const Run& run, const Op& op) {
  const int32_t half = op.n / 2;
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    float* out = run.arenas.Row(op.out, rows, r);
    const auto p = static_cast<double>(FirstPosition(op, rows.rows[r]));
    for (int32_t i = 0; i < half; ++i) {
      const double angle = p / std::pow(double{op.max_period}, double(i) / (half - 1));
      out[i] += static_cast<float>(std::cos(angle));
      out[half + i] += static_cast<float>(std::sin(angle));
    }
  });
}

void AddVector(const Run& run, const Op& op) {
  const float* vector = run.weights.Data(op.weight);
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    for (int32_t t = 0; t < op.steps; ++t) {
      float* out = run.arenas.Row(op.out, rows, r) + t * op.out_step;
      for (int32_t i = 0; i < op.n; ++i) out[i] += vector[i];
    }
  });
}

void Inject(const Run& run, const Op& op) {
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    if (!rows.rows[r].use_embedding) return;
    std::memcpy(run.arenas.Row(op.out, rows, r), run.arenas.Row(op.in, rows, r),
                static_cast<size_t>(op.n) * sizeof(float));
  });
}

void Sample(const Run& run, const Op& op) {
  const TokenLayout& layout = run.plan.tokens;
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    SampleRow(layout, op, run.arenas, rows, r, run.candidates);
  });
}

void RvqPick(const Run& run, const Op& op) {
  const Weights::Entry& table = run.weights.At(op.weight);
  ForRows(run, op, [&](const Control::Rows& rows, int32_t r) {
    const float* scores = run.arenas.Row(op.in, rows, r);
    int32_t best = 0;
    for (int32_t i = 1; i < op.n; ++i) {
      if (scores[i] > scores[best]) best = i;
    }
    run.arenas.Tokens(op.out, rows, r)[op.index] = best;
    float* residual = run.arenas.Row(op.aux, rows, r);
    for (int32_t i = 0; i < op.k; ++i) {
      residual[i] -= table.data[static_cast<size_t>(int64_t{best} * table.cols + i)];
    }
  });
}

}  // namespace

void RunOp(const Run& run, const Op& op) noexcept {
  switch (op.kind) {
    case OpKind::kLinear:
      return Linear(run, op);
    case OpKind::kNorm:
      return Normalize(run, op);
    case OpKind::kActivation:
      return Activations(run, op);
    case OpKind::kGate:
      return Gate(run, op);
    case OpKind::kWindow:
      return ConvolutionWindow(run, op);
    case OpKind::kUpsample:
      return Upsample(run, op);
    case OpKind::kRopeAppend:
      return RopeAppend(run, op);
    case OpKind::kAttention:
      return Attention(run, op);
    case OpKind::kEmbed:
      return Embed(run, op);
    case OpKind::kSinPosition:
      return SinPosition(run, op);
    case OpKind::kAddVector:
      return AddVector(run, op);
    case OpKind::kInject:
      return Inject(run, op);
    case OpKind::kTokensIn:
      return TokensInRows(run.plan.tokens, op, run.arenas, run.control);
    case OpKind::kTokensOut:
      return TokensOutRows(run.plan.tokens, op, run.arenas, run.control);
    case OpKind::kSample:
      return Sample(run, op);
    case OpKind::kRvqPick:
      return RvqPick(run, op);
  }
}

}  // namespace antiphon::kernels::reference
