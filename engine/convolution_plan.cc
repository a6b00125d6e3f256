#include "engine/convolution_plan.h"

#include "engine/error.h"

namespace antiphon::engine {

using kernels::Op;
using kernels::OpKind;
using kernels::WeightKind;
using kernels::WeightSpec;

namespace {

void OpenWindow(PlanBuilder& builder, const std::string& name, int channels, int steps_in,
                Convolution* conv) {
  conv->window = builder.Scratch(conv->history + steps_in, channels);
  conv->input = conv->window;
  conv->input.ref.offset += int64_t{conv->history} * channels;
  conv->input.steps = steps_in;
  if (conv->history > 0) {
    conv->history_state =
        builder.layout().state.Get(name + ".history", int64_t{conv->history} * channels);
  }
}

}  // namespace

Convolution OpenConvolution(PlanBuilder& builder, const SafeTensors& tensors,
                            const std::string& name, int in_channels, int out_channels, int kernel,
                            int stride, int dilation, int steps_in, bool replicate) {
  Convolution conv;
  conv.kernel = kernel;
  conv.stride = stride;
  conv.dilation = dilation;
  conv.out_channels = out_channels;
  conv.replicate = replicate;
  conv.history = (kernel - 1) * dilation + 1 - stride;
  if (conv.history < 0 || steps_in % stride != 0) {
    throw InputError(name + ": a convolution of kernel " + std::to_string(kernel) + " and stride " +
                     std::to_string(stride) + " cannot stream frames of " +
                     std::to_string(steps_in) + " steps");
  }
  const TensorView tensor = tensors.Get(name + ".weight", {out_channels, in_channels, kernel});
  // [out, in, kernel] to rows [out] of [kernel, in].
  WeightSpec spec;
  spec.name = name + ".weight";
  spec.kind = WeightKind::kMatrix;
  spec.rows = out_channels;
  spec.cols = int64_t{kernel} * in_channels;
  spec.read = [tensor, in_channels, kernel](int64_t begin, int64_t count, float* out) {
    const int64_t cols = int64_t{kernel} * in_channels;
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < count; ++r) {
      ReadFloats(tensor, (begin + r) * cols, cols, row.data());
      for (int64_t i = 0; i < in_channels; ++i) {
        for (int64_t k = 0; k < kernel; ++k) {
          out[r * cols + k * in_channels + i] = row[static_cast<size_t>(i * kernel + k)];
        }
      }
    }
  };
  conv.weight = builder.Add(std::move(spec));
  if (tensors.Has(name + ".bias")) {
    conv.bias = builder.Vector(name + ".bias", tensors.Get(name + ".bias", {out_channels}));
  }
  OpenWindow(builder, name, in_channels, steps_in, &conv);
  return conv;
}

Convolution OpenTransposed(PlanBuilder& builder, const SafeTensors& tensors,
                           const std::string& name, int in_channels, int out_channels, int kernel,
                           int stride, int steps_in) {
  if (kernel % stride != 0) {
    throw InputError(name + ": transposed convolution kernel " + std::to_string(kernel) +
                     " is no multiple of its stride " + std::to_string(stride));
  }
  Convolution conv;
  conv.kernel = kernel;
  conv.stride = stride;
  conv.out_channels = out_channels;
  conv.transposed = true;
  const int taps = kernel / stride;
  conv.history = taps - 1;
  const TensorView tensor = tensors.Get(name + ".weight", {in_channels, out_channels, kernel});
  // Row j*out + o of [taps, in], oldest input first.
  WeightSpec spec;
  spec.name = name + ".weight";
  spec.kind = WeightKind::kMatrix;
  spec.rows = int64_t{stride} * out_channels;
  spec.cols = int64_t{taps} * in_channels;
  spec.read = [=](int64_t begin, int64_t count, float* out) {
    for (int64_t r = 0; r < count; ++r) {
      const int64_t j = (begin + r) / out_channels, o = (begin + r) % out_channels;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t k = j + (taps - 1 - tap) * stride;
        for (int64_t i = 0; i < in_channels; ++i) {
          ReadFloats(tensor, (i * out_channels + o) * kernel + k, 1, out++);
        }
      }
    }
  };
  conv.weight = builder.Add(std::move(spec));
  if (tensors.Has(name + ".bias")) {
    const TensorView bias = tensors.Get(name + ".bias", {out_channels});
    std::vector<float> repeated(static_cast<size_t>(stride) * static_cast<size_t>(out_channels));
    for (int j = 0; j < stride; ++j) {
      ReadFloats(bias, 0, out_channels, repeated.data() + int64_t{j} * out_channels);
    }
    conv.bias = builder.Vector(name + ".bias", std::move(repeated));
  }
  OpenWindow(builder, name, in_channels, steps_in, &conv);
  return conv;
}

View AppendConvolution(PlanBuilder& builder, const Convolution& conv,
                       kernels::Activation activation, const View* out) {
  if (conv.history > 0) {
    Op& op = builder.Append(OpKind::kWindow, conv.window, conv.window);
    op.in = conv.history_state;
    op.pad = conv.history;
    op.steps = conv.input.steps;
    op.replicate = conv.replicate;
  }
  const int channels = conv.window.width;
  const int steps_out =
      conv.transposed ? conv.input.steps * conv.stride : conv.input.steps / conv.stride;
  const View y = out != nullptr ? *out : builder.Scratch(steps_out, conv.out_channels);

  // The linear op sees windows: a convolution one per output step, a transposed one per input step
  // with its `stride` output steps side by side.
  View windows = conv.window;
  View results = y;
  const int taps = conv.transposed ? conv.kernel / conv.stride : conv.kernel;
  windows.width = taps * channels;
  if (conv.transposed) {
    results.steps = conv.input.steps;
    results.width = conv.stride * conv.out_channels;
    results.step = results.width;
  } else {
    windows.step = int64_t{conv.stride} * channels;
  }
  Op& op = builder.Linear(windows, results, conv.weight);
  op.bias = conv.bias;
  op.activation = activation;
  if (!conv.transposed && conv.dilation > 1) {
    op.taps = conv.kernel;
    op.tap_step = int64_t{conv.dilation} * channels;
  }
  builder.Free(conv.window);
  return y;
}

}  // namespace antiphon::engine
