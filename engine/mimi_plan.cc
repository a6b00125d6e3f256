#include "engine/mimi_plan.h"

#include <algorithm>
#include <cmath>

#include "engine/checkpoint.h"
#include "engine/convolution_plan.h"
#include "engine/transformer_plan.h"

namespace antiphon::engine {

using kernels::Activation;
using kernels::Op;
using kernels::OpKind;
using kernels::Stage;
using kernels::WeightKind;
using kernels::WeightSpec;

namespace {

// One direction of the codec while its ops are appended.
class CodecDirection {
 public:
  CodecDirection(PlanBuilder& builder, const MimiConfig& config, const SafeTensors& tensors,
                 const MimiPlanOptions& options)
      : builder_(builder), config_(config), tensors_(tensors), options_(options) {
    // Tables of one kEmbed op have consecutive indices, so they are added before anything else.
    for (int level = 0; level < options_.codebooks; ++level) CodebookTable(level);
  }

  void Encode(const kernels::Ref& pcm) {
    builder_.set_stage(Stage::kEncode, kernels::Part::kEncode);
    View x = SeanetEncoder(pcm);
    builder_.TapCopy("enc_seanet", x);  // the transformer works in place
    Transformer("encoder_transformer", &x);
    builder_.Tap("enc_transformer", x);
    const View latent = Downsample(x);
    builder_.Tap("latent", latent);
    QuantizePart("quantizer.rvq_first", latent, 0, 1);
    QuantizePart("quantizer.rvq_rest", latent, 1, options_.codebooks - 1);
    builder_.Free(latent);
  }

  void Decode(const kernels::Ref& pcm) {
    builder_.set_stage(Stage::kDecode, kernels::Part::kDecode);
    View x = Dequantize();
    builder_.Tap("dec_latent", x);
    x = Upsample(x);
    builder_.TapCopy("dec_upsampled", x);
    Transformer("decoder_transformer", &x);
    builder_.Tap("dec_transformer", x);
    SeanetDecoder(x, pcm);
  }

 private:
  std::string Module(const std::string& side, const std::string& rest) {
    return side + ".model." + std::to_string(module_) + "." + rest;
  }

  static View FrameOf(const kernels::Ref& pcm, int samples, int width) {
    View view;
    view.ref = pcm;
    view.steps = samples / width;
    view.width = width;
    view.step = width;
    return view;
  }

  void Elu(const View& in, const View& out) {
    builder_.Append(OpKind::kActivation, in, out).activation = Activation::kElu;
  }

  // Residual layers on x, in place (section 2.1).
  void ResidualBlocks(const std::string& side, const View& x) {
    const int hidden = x.width / config_.compress;
    int dilation = 1;
    for (int layer = 0; layer < config_.n_residual_layers; ++layer) {
      const Convolution inner =
          OpenConvolution(builder_, tensors_, Module(side, "block.1.conv.conv"), x.width, hidden,
                          config_.residual_kernel_size, 1, dilation, x.steps);
      Elu(x, inner.input);
      const View h = AppendConvolution(builder_, inner, Activation::kElu);
      const Convolution outer = OpenConvolution(
          builder_, tensors_, Module(side, "block.3.conv.conv"), hidden, x.width, 1, 1, 1, 0);
      Op& op = builder_.Linear(h, x, outer.weight);
      op.bias = outer.bias;
      op.accumulate = true;
      builder_.Free(h);
      dilation *= config_.dilation_base;
      ++module_;
    }
  }

  View SeanetEncoder(const kernels::Ref& pcm) {
    int channels = config_.n_filters;
    const int samples = config_.frame_samples();
    const Convolution first = OpenConvolution(builder_, tensors_, Module("encoder", "conv.conv"), 1,
                                              channels, config_.kernel_size, 1, 1, samples);
    // One long step instead of `samples` short ones.
    View whole = first.input;
    whole.steps = 1;
    whole.width = samples;
    builder_.Copy(FrameOf(pcm, samples, samples), whole);
    View x = AppendConvolution(builder_, first);
    ++module_;
    for (auto ratio = config_.ratios.rbegin(); ratio != config_.ratios.rend(); ++ratio) {
      ResidualBlocks("encoder", x);
      ++module_;  // ELU
      const Convolution down =
          OpenConvolution(builder_, tensors_, Module("encoder", "conv.conv"), channels,
                          2 * channels, 2 * *ratio, *ratio, 1, x.steps);
      Elu(x, down.input);
      builder_.Free(x);
      x = AppendConvolution(builder_, down);
      channels *= 2;
      ++module_;
    }
    ++module_;  // ELU
    const Convolution last =
        OpenConvolution(builder_, tensors_, Module("encoder", "conv.conv"), channels,
                        config_.dimension, config_.last_kernel_size, 1, 1, x.steps);
    Elu(x, last.input);
    builder_.Free(x);
    return AppendConvolution(builder_, last);
  }

  void SeanetDecoder(const View& latent, const kernels::Ref& pcm) {
    int channels = config_.n_filters << config_.ratios.size();
    module_ = 0;
    const Convolution first =
        OpenConvolution(builder_, tensors_, Module("decoder", "conv.conv"), config_.dimension,
                        channels, config_.kernel_size, 1, 1, latent.steps);
    builder_.Copy(latent, first.input);
    builder_.Free(latent);
    View x = AppendConvolution(builder_, first);
    ++module_;
    for (const int ratio : config_.ratios) {
      ++module_;  // ELU
      const Convolution up = OpenTransposed(builder_, tensors_, Module("decoder", "convtr.convtr"),
                                            channels, channels / 2, 2 * ratio, ratio, x.steps);
      Elu(x, up.input);
      builder_.Free(x);
      x = AppendConvolution(builder_, up);
      channels /= 2;
      ++module_;
      ResidualBlocks("decoder", x);
    }
    ++module_;  // ELU
    const Convolution last = OpenConvolution(builder_, tensors_, Module("decoder", "conv.conv"),
                                             channels, 1, config_.last_kernel_size, 1, 1, x.steps);
    Elu(x, last.input);
    builder_.Free(x);
    const View samples = FrameOf(pcm, config_.frame_samples(), 1);
    AppendConvolution(builder_, last, Activation::kNone, &samples);
  }

  // In place, or into a view of the model's width and back where the widths differ (section 2.3).
  void Transformer(const std::string& name, View* x) {
    const TransformerConfig& config = config_.transformer;
    TransformerRun run;
    run.tensors = &tensors_;
    run.prefix = name + ".transformer";
    run.window = options_.window;
    // Both queries of a call see a full context only in a one-shot evaluation.
    const int extra = options_.window == AttentionWindow::kOneShot ? x->steps - 1 : 0;
    run.capacity = std::max(config.context + extra, x->steps);
    for (int layer = 0; layer < config.layers; ++layer) {
      const std::string ring = name + ".layers." + std::to_string(layer);
      const int64_t elements = int64_t{run.capacity} * config.dim / config.kv_repeat;
      run.rings.push_back({builder_.layout().state.Get(ring + ".keys", elements),
                           builder_.layout().state.Get(ring + ".values", elements)});
    }
    if (config.dim == config_.dimension) {
      AppendTransformer(builder_, config, run, *x);
      return;
    }
    const View inner = builder_.Scratch(x->steps, config.dim);
    Project(name + ".input_proj.weight", *x, inner);
    AppendTransformer(builder_, config, run, inner);
    Project(name + ".output_projs.0.weight", inner, *x);
    builder_.Free(inner);
  }

  void Project(const std::string& name, const View& in, const View& out) {
    const TensorView tensor = tensors_.Get(name, {out.width, in.width});
    builder_.Linear(in, out, builder_.Matrix(name, tensor, out.width, in.width));
  }

  // 1x1 convolution without bias, [out, in, 1].
  void Pointwise(const std::string& name, const View& in, const View& out, bool accumulate) {
    const TensorView tensor = tensors_.Get(name, {out.width, in.width, 1});
    const int32_t weight = builder_.Matrix(name, tensor, out.width, in.width);
    builder_.Linear(in, out, weight).accumulate = accumulate;
  }

  View Downsample(const View& x) {
    const int stride = config_.resample_stride();
    if (stride == 1) return x;
    const Convolution down =
        OpenConvolution(builder_, tensors_, "downsample.conv.conv.conv", x.width, x.width,
                        2 * stride, stride, 1, x.steps, /*replicate=*/true);
    builder_.Copy(x, down.input);
    builder_.Free(x);
    return AppendConvolution(builder_, down);
  }

  View Upsample(const View& x) {
    const int stride = config_.resample_stride();
    if (stride == 1) return x;
    const int width = x.width, kernel = 2 * stride, history = kernel / stride - 1;
    const std::string name = "upsample.convtr.convtr.convtr";
    const View window = builder_.Scratch(history + x.steps, width);
    View input = window;
    input.ref.offset += int64_t{history} * width;
    input.steps = x.steps;
    builder_.Copy(x, input);
    builder_.Free(x);
    Op& shift = builder_.Append(OpKind::kWindow, window, window);
    shift.in = builder_.layout().state.Get(name + ".history", int64_t{history} * width);
    shift.pad = history;
    shift.steps = x.steps;
    const View y = builder_.Scratch(x.steps * stride, width);
    Op& op = builder_.Append(OpKind::kUpsample, window, y);
    op.steps = x.steps;
    op.k = kernel;
    op.stride = stride;
    op.weight = builder_.Table(name + ".weight", tensors_.Get(name + ".weight", {width, 1, kernel}),
                               width, kernel);
    builder_.Free(window);
    return y;
  }

  static std::string Codebook(int level) {
    return level == 0 ? "quantizer.rvq_first.vq.layers.0"
                      : "quantizer.rvq_rest.vq.layers." + std::to_string(level - 1);
  }

  // Centroids of a level as table (decode, residuals).
  int32_t CodebookTable(int level) {
    WeightSpec spec;
    spec.name = Codebook(level) + ".table";
    spec.kind = WeightKind::kTable;
    spec.rows = config_.bins;
    spec.cols = config_.codebook_dim;
    spec.read = CodebookReader(level);
    return builder_.Add(std::move(spec));
  }

  std::function<void(int64_t, int64_t, float*)> CodebookReader(int level) const {
    return [tensors = &tensors_, prefix = Codebook(level), bins = config_.bins,
            dim = config_.codebook_dim](int64_t begin, int64_t count, float* out) {
      ReadCentroids(*tensors, prefix, bins, dim, begin, count, out);
    };
  }

  // The nearest centroid minimises |c|^2 / 2 - r.c, so scores r.c - |c|^2 / 2 are one linear op.
  void QuantizePart(const std::string& part, const View& latent, int first_level, int levels) {
    if (levels <= 0) return;
    const View residual = builder_.Scratch(1, config_.codebook_dim);
    Pointwise(part + ".input_proj.weight", latent, residual, false);
    for (int level = first_level; level < first_level + levels; ++level) {
      WeightSpec spec;
      spec.name = Codebook(level) + ".scores";
      spec.kind = WeightKind::kMatrix;
      spec.rows = config_.bins;
      spec.cols = config_.codebook_dim;
      spec.read = CodebookReader(level);
      const int32_t weight = builder_.Add(std::move(spec));
      const View scores = builder_.Scratch(1, config_.bins);
      builder_.Linear(residual, scores, weight).bias = CodebookNorms(level);
      Op& pick = builder_.Append(OpKind::kRvqPick, scores, scores);
      pick.out = options_.codes_out;
      pick.aux = residual.ref;
      pick.k = config_.codebook_dim;
      pick.weight = CodebookTable(level);
      pick.index = level;
      builder_.Free(scores);
    }
    builder_.Free(residual);
  }

  // -|c|^2 / 2 of every centroid.
  int32_t CodebookNorms(int level) {
    WeightSpec spec;
    spec.name = Codebook(level) + ".norms";
    spec.kind = WeightKind::kVector;
    spec.rows = 1;
    spec.cols = config_.bins;
    spec.read = [read = CodebookReader(level), bins = config_.bins, dim = config_.codebook_dim](
                    int64_t, int64_t, float* out) {
      std::vector<float> centroid(static_cast<size_t>(dim));
      for (int64_t c = 0; c < bins; ++c) {
        read(c, 1, centroid.data());
        double sum = 0.0;
        for (const float value : centroid) sum += double{value} * value;
        out[c] = static_cast<float>(-0.5 * sum);
      }
    };
    return builder_.Add(std::move(spec));
  }

  // The sum of projected centroids [row, 1, dimension].
  View Dequantize() {
    const View latent = builder_.Scratch(1, config_.dimension);
    DequantizePart("quantizer.rvq_first", 0, 1, latent);
    DequantizePart("quantizer.rvq_rest", 1, options_.codebooks - 1, latent);
    return latent;
  }

  void DequantizePart(const std::string& part, int first_level, int levels, const View& latent) {
    if (levels <= 0) return;
    const View sum = builder_.Scratch(1, config_.codebook_dim);
    View codes = sum;
    codes.ref = options_.codes_in;
    codes.ref.offset += first_level;
    Op& op = builder_.Append(OpKind::kEmbed, codes, sum);
    op.weight = CodebookTable(first_level);
    op.count = levels;
    Pointwise(part + ".output_proj.weight", sum, latent, first_level > 0);
    builder_.Free(sum);
  }

  PlanBuilder& builder_;
  const MimiConfig& config_;
  const SafeTensors& tensors_;
  const MimiPlanOptions& options_;
  int module_ = 0;
};

}  // namespace

void AppendMimiEncode(PlanBuilder& builder, const MimiConfig& config, const SafeTensors& tensors,
                      const MimiPlanOptions& options, const kernels::Ref& pcm) {
  CodecDirection(builder, config, tensors, options).Encode(pcm);
}

void AppendMimiDecode(PlanBuilder& builder, const MimiConfig& config, const SafeTensors& tensors,
                      const MimiPlanOptions& options, const kernels::Ref& pcm) {
  CodecDirection(builder, config, tensors, options).Decode(pcm);
}

}  // namespace antiphon::engine
