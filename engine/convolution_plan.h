// Streaming convolutions as linear ops on windows of time-major activations (section 2.1).
//
// A causal convolution reads, for every output step, one contiguous window of its input; so the
// producer of the input writes straight into a buffer that has room for the history in front:
//   Convolution conv = OpenConvolution(...);   // allocates the window
//   ... append ops that write conv.input ...
//   View y = AppendConvolution(builder, conv, activation);
#pragma once

#include <string>

#include "engine/plan_builder.h"

namespace antiphon::engine {

struct Convolution {
  View input;   // [row, steps_in, channels]: where the producer writes
  View window;  // [row, history + steps_in, channels]
  kernels::Ref history_state;
  int history = 0;  // steps
  int kernel = 0, stride = 1, dilation = 1;
  int out_channels = 0;
  bool transposed = false;
  bool replicate = false;
  int32_t weight = kernels::kNoWeight;
  int32_t bias = kernels::kNoWeight;
};

// `name` is the tensor prefix ("encoder.model.0.conv.conv"): <name>.weight [out, in, kernel] and,
// if present, <name>.bias [out].
Convolution OpenConvolution(PlanBuilder& builder, const SafeTensors& tensors,
                            const std::string& name, int in_channels, int out_channels, int kernel,
                            int stride, int dilation, int steps_in, bool replicate = false);

// Transposed: <name>.weight [in, out, kernel], kernel a multiple of stride. Output sample
// t*stride+j = sum_m W[:, :, j + m*stride]^T x[t-m]: a plain convolution with stride*out output
// channels over kernel/stride inputs, so its history is input columns rather than partial sums.
Convolution OpenTransposed(PlanBuilder& builder, const SafeTensors& tensors,
                           const std::string& name, int in_channels, int out_channels, int kernel,
                           int stride, int steps_in);

// Appends the history and linear ops, frees the window, returns the output [row, steps, out] in
// fresh scratch, or writes it to `out` if given.
View AppendConvolution(PlanBuilder& builder, const Convolution& conv,
                       kernels::Activation activation = kernels::Activation::kNone,
                       const View* out = nullptr);

}  // namespace antiphon::engine
