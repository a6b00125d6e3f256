#include "engine/lm_plan.h"

#include <algorithm>

#include "engine/depth_plan.h"
#include "engine/embedding_plan.h"
#include "engine/error.h"
#include "engine/transformer_plan.h"

namespace antiphon::engine {

using kernels::Op;
using kernels::OpKind;
using kernels::Stage;

namespace {

// Tokens of a row as a view of int32 in scratch.
View TokenView(const kernels::Ref& ref, int32_t count) {
  View view;
  view.ref = ref;
  view.width = count;
  view.step = count;
  return view;
}

void AppendTokensIn(PlanBuilder& builder, const LmConfig& config) {
  const kernels::TokenLayout& layout = builder.plan().tokens;
  const View inputs = TokenView(layout.inputs, config.streams());
  builder.Append(OpKind::kTokensIn, inputs, inputs);
}

// Hibiki's row 2 of the text table is overwritten by row 3 when the file is loaded (section 3.7). A
// weight is added once by name, so this one is what the embedding finds.
void AddHibikiTextTable(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors) {
  const int rows = config.text_card + 1, width = config.temporal.dim;
  const TensorView tensor = tensors.Get("text_emb.weight", {rows, width});
  kernels::WeightSpec spec;
  spec.name = "text_emb.weight";
  spec.kind = kernels::WeightKind::kTable;
  spec.rows = rows;
  spec.cols = width;
  spec.read = [tensor, width](int64_t begin, int64_t count, float* out) {
    for (int64_t row = begin; row < begin + count; ++row, out += width) {
      ReadFloats(tensor, (row == 2 ? 3 : row) * width, width, out);
    }
  };
  builder.Add(std::move(spec));
}

// e = sum of the audio embeddings, then text (section 3.1).
View AppendInputEmbedding(PlanBuilder& builder, const LmConfig& config,
                          const SafeTensors& tensors) {
  const kernels::TokenLayout& layout = builder.plan().tokens;
  const View inputs = TokenView(layout.inputs, config.streams());
  const View x = builder.Scratch(1, config.temporal.dim);
  std::vector<std::string> names;
  for (int q = 0; q < config.n_q; ++q) names.push_back("emb." + std::to_string(q));
  AppendPlainEmbedding(builder, tensors, names, config.card + 1,
                       PlanBuilder::Slice(inputs, 1, config.n_q), x, false);
  Embedding text;
  text.name = "text_emb";
  text.rows = config.text_card + 1;
  text.demux = config.demux_second_stream;
  if (config.family == Family::kHibiki) AddHibikiTextTable(builder, config, tensors);
  AppendEmbedding(builder, tensors, text, PlanBuilder::Slice(inputs, 0, 1), x, true);
  // Conditions are not offered to callers: each is absent, which is a learnt vector of its own
  // (3.7).
  for (const Conditioner& conditioner : config.conditioners) {
    if (!conditioner.sum) continue;
    const std::string name =
        "condition_provider.conditioners." + conditioner.name + ".learnt_padding";
    builder.Append(OpKind::kAddVector, x, x).weight =
        builder.Vector(name, tensors.Get(name, {1, 1, x.width}));
  }
  return x;
}

TransformerRun TemporalRun(const LmConfig& config, const SafeTensors& tensors,
                           const LmPlanOptions& options) {
  TransformerRun run;
  run.tensors = &tensors;
  run.prefix = "transformer";
  run.window = options.window;
  run.paged = true;
  run.capacity = config.temporal.context;
  return run;
}

void RefuseUnsupported(const LmConfig& config) {
  if (config.temporal.cross_attention) {
    throw InputError(
        "the model conditions on cross attention (a text-to-speech checkpoint); the engine runs "
        "speech dialogue models without it");
  }
  if (config.streams() > kernels::kMaxStreams) {
    throw InputError("n_q is " + std::to_string(config.n_q) + ", at most " +
                     std::to_string(kernels::kMaxStreams - 1) + " streams are supported");
  }
}

}  // namespace

int NeededDepthSteps(const LmConfig& config) {
  return config.family == Family::kPersonaPlex ? std::min(config.dep_q, config.agent_codes())
                                               : config.dep_q;
}

kernels::TokenLayout MakeTokenLayout(PlanBuilder& builder, const LmConfig& config,
                                     const LmPlanOptions& options) {
  RefuseUnsupported(config);
  kernels::TokenLayout layout;
  layout.streams = config.streams();
  layout.agent = options.agent_codes;
  layout.generated = config.dep_q;
  layout.depth_steps = options.depth_steps;
  layout.max_delay = config.max_delay();
  layout.ring = kernels::RingPositions(layout.max_delay);
  layout.lead = options.force_given ? 1 : 0;
  layout.force_given = options.force_given;
  layout.text_initial = config.text_card;
  layout.audio_initial = config.card;
  std::copy(config.delays.begin(), config.delays.end(), layout.delays);
  BlockTable& state = builder.layout().state;
  BlockTable& io = builder.layout().io;
  layout.grid = state.Get("token_grid", kernels::GridElements(layout.streams, layout.ring));
  layout.user_codes = state.Get("user_codes", std::max(1, options.user_codes));
  layout.agent_codes = state.Get("agent_codes", std::max(1, options.agent_codes));
  layout.given = io.Get("given", layout.streams);
  layout.out_tokens = io.Get("out_tokens", layout.streams);
  layout.inputs = builder.Scratch(1, layout.streams).ref;
  layout.provided = builder.Scratch(1, 1 + layout.generated).ref;
  layout.sampled = builder.Scratch(1, 1 + layout.generated).ref;
  layout.used = builder.Scratch(1, 1 + layout.generated).ref;
  builder.Tap("input_tokens", TokenView(layout.inputs, layout.streams));
  builder.Tap("provided", TokenView(layout.provided, 1 + layout.generated));
  builder.Tap("sampled", TokenView(layout.sampled, 1 + layout.generated));
  builder.Tap("used", TokenView(layout.used, 1 + layout.generated));
  return layout;
}

void AppendLmStep(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                  const LmPlanOptions& options) {
  builder.set_stage(Stage::kStep, kernels::Part::kTemporal);
  AppendTokensIn(builder, config);
  const View x = AppendInputEmbedding(builder, config, tensors);
  AppendTransformer(builder, config.temporal, TemporalRun(config, tensors, options), x);
  const View out = builder.Scratch(1, config.temporal.dim);
  AppendNorm(builder, AddNorm(builder, tensors, "out_norm", config.temporal.norm, x.width), x, out);
  builder.Tap("transformer_out", out);
  builder.Free(x);

  const View logits = builder.Scratch(1, config.text_card_out);
  const TensorView head = tensors.Get("text_linear.weight", {config.text_card_out, out.width});
  builder.Linear(out, logits,
                 builder.Matrix("text_linear.weight", head, config.text_card_out, out.width));
  builder.Tap("text_logits", logits);
  Op& sample = builder.Append(OpKind::kSample, logits, logits);
  sample.is_text = true;
  builder.Free(logits);

  builder.set_part(kernels::Part::kDepth);
  AppendDepth(builder, config, tensors, options, out);
  builder.Free(out);
  const View tokens = TokenView(builder.plan().tokens.sampled, 1);
  builder.Append(OpKind::kTokensOut, tokens, tokens);
}

void AppendLmPrefill(PlanBuilder& builder, const LmConfig& config, const SafeTensors& tensors,
                     const LmPlanOptions& options) {
  builder.set_stage(Stage::kPrefill, kernels::Part::kTemporal);
  AppendTokensIn(builder, config);
  const View x = AppendInputEmbedding(builder, config, tensors);
  View given = x;
  given.ref = builder.layout().io.Get("embedding", x.width);
  builder.Append(OpKind::kInject, given, x);
  TransformerRun run = TemporalRun(config, tensors, options);
  run.keys_only = true;
  AppendTransformer(builder, config.temporal, run, x);
  builder.Free(x);
}

}  // namespace antiphon::engine
