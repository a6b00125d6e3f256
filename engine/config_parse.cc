// Kyutai-style config.json to LmConfig and MimiConfig.
#include <algorithm>
#include <numeric>

#include "engine/config_reader.h"
#include "engine/model_config.h"

namespace antiphon::engine {
namespace {

constexpr int kMaxDim = 1 << 17;
constexpr int kMaxLayers = 1024;
constexpr int kMaxCard = 1 << 22;
constexpr int64_t kMaxHop = 1 << 20;  // samples; published codecs have 960
constexpr size_t kMaxRatios = 16;     // channels double with each

template <typename T>
struct Name {
  const char* text;
  T value;
};

constexpr Name<NormKind> kNorms[] = {{"rms_norm", NormKind::kRmsNorm},
                                     {"rms_norm_f32", NormKind::kRmsNormF32},
                                     {"layer_norm", NormKind::kLayerNorm},
                                     {"layer_norm_f32", NormKind::kLayerNormF32}};
constexpr Name<Gating> kGatings[] = {{"none", Gating::kNone},        {"silu", Gating::kSilu},
                                     {"gelu", Gating::kGelu},        {"relu", Gating::kRelu},
                                     {"sigmoid", Gating::kSigmoid},  {"tanh", Gating::kTanh},
                                     {"identity", Gating::kIdentity}};
constexpr Name<PositionKind> kPositions[] = {{"none", PositionKind::kNone},
                                             {"rope", PositionKind::kRope},
                                             {"rope_concat", PositionKind::kRopeConcat},
                                             {"sin", PositionKind::kSin}};

template <typename T, size_t n>
T OneOf(const ConfigReader& config, const std::string& key, const Name<T> (&names)[n], T fallback) {
  if (!config.Has(key)) return fallback;
  const std::string text = config.String(key, "");
  std::string known;
  for (const Name<T>& name : names) {
    if (text == name.text) return name.value;
    known += (known.empty() ? "" : ", ") + std::string(name.text);
  }
  config.Fail(key, "one of " + known, config.json().at(key));
}

// Inner width of a feed-forward of declared size ff (section 1.3).
int Hidden(Gating gating, int dim, int ff) {
  if (gating == Gating::kNone) return ff;
  return ff == 4 * dim ? 21 * dim / 8 : 2 * ff / 3;
}

void CheckHeads(const ConfigReader& config, const TransformerConfig& stack,
                const std::string& key) {
  if (stack.dim % stack.heads != 0 || stack.head_dim() % 2 != 0) {
    config.Fail(key, "a divisor of " + std::to_string(stack.dim) + " with even head size",
                stack.heads);
  }
  if (stack.heads % stack.kv_repeat != 0) {
    config.Fail("kv_repeat", "a divisor of " + std::to_string(stack.heads), stack.kv_repeat);
  }
}

TransformerConfig ParseTemporal(const ConfigReader& config) {
  TransformerConfig stack;
  stack.dim = config.Int("dim", 2, kMaxDim);
  stack.heads = config.Int("num_heads", 1, 4096);
  stack.kv_repeat = config.Int("kv_repeat", 1, 4096, 1);
  stack.layers = config.Int("num_layers", 1, kMaxLayers);
  stack.context = config.Int("context", 1, 1 << 24, 3000);
  stack.max_period = static_cast<float>(config.Number("max_period", 1.0, 1e12, 10000.0));
  stack.norm = OneOf(config, "norm", kNorms, NormKind::kLayerNorm);
  stack.gating = OneOf(config, "gating", kGatings, Gating::kNone);
  stack.position = OneOf(config, "positional_embedding", kPositions, PositionKind::kSin);
  const double scale = config.Number("hidden_scale", 0.01, 64.0, 4.0);
  stack.hidden = Hidden(stack.gating, stack.dim, static_cast<int>(scale * stack.dim));
  stack.cross_attention = config.Bool("cross_attention", false);
  CheckHeads(config, stack, "num_heads");
  return stack;
}

// Keys without a depformer_ twin are the temporal transformer's (section 3.2).
TransformerConfig ParseDepth(const ConfigReader& config, const TransformerConfig& temporal,
                             int weight_sets) {
  TransformerConfig stack = temporal;
  stack.dim = config.Int("depformer_dim", 2, kMaxDim);
  stack.heads = config.Int("depformer_num_heads", 1, 4096, temporal.heads);
  stack.layers = config.Int("depformer_num_layers", 1, kMaxLayers, temporal.layers);
  stack.context = 0;
  stack.cross_attention = false;
  stack.max_period =
      static_cast<float>(config.Number("depformer_max_period", 1.0, 1e12, temporal.max_period));
  stack.gating = OneOf(config, "depformer_gating", kGatings, temporal.gating);
  stack.position = OneOf(config, "depformer_pos_emb", kPositions, PositionKind::kSin);
  const std::string key = "depformer_dim_feedforward";
  if (config.Has(key) && config.json().at(key).is_array()) {
    for (const int ff : config.Ints(key, 1, kMaxDim)) {
      stack.hidden_per_set.push_back(Hidden(stack.gating, stack.dim, ff));
    }
    if (static_cast<int>(stack.hidden_per_set.size()) != weight_sets) {
      config.Fail(key, std::to_string(weight_sets) + " sizes, one per weight set",
                  config.json().at(key));
    }
    stack.hidden = stack.hidden_per_set.front();
  } else {
    const double scale = config.Number("hidden_scale", 0.01, 64.0, 4.0);
    const int ff = config.Int(key, 1, kMaxDim, static_cast<int>(scale * stack.dim));
    stack.hidden = Hidden(stack.gating, stack.dim, ff);
  }
  CheckHeads(config, stack, "depformer_num_heads");
  return stack;
}

void ParseConditioners(const ConfigReader& config, LmConfig* lm) {
  if (!config.Has("conditioners")) return;
  std::vector<std::string> sum;
  if (config.Has("fuser") && config.json().at("fuser").is_object()) {
    const nlohmann::json& fuser = config.json().at("fuser");
    if (fuser.contains("sum") && fuser["sum"].is_array()) {
      for (const nlohmann::json& name : fuser["sum"]) {
        if (name.is_string()) sum.push_back(name.get<std::string>());
      }
    }
  }
  const ConfigReader all = config.Object("conditioners");
  for (const auto& [name, value] : all.json().items()) {
    const ConfigReader entry = all.Object(name);
    const std::string type = entry.String("type", "lut");
    const ConfigReader body = entry.Object(type);
    Conditioner conditioner;
    conditioner.name = name;
    conditioner.is_lut = type == "lut";
    conditioner.dim = body.Int("dim", 1, kMaxDim);
    if (conditioner.is_lut) conditioner.bins = body.Int("n_bins", 1, kMaxCard);
    conditioner.sum = std::find(sum.begin(), sum.end(), name) != sum.end();
    lm->conditioners.push_back(conditioner);
  }
}

// model_type where it is given. Otherwise a model that generates both speakers' codebooks, the
// second half of which starts as undelayed as the first, is PersonaPlex's (section 4).
Family FamilyOf(const ConfigReader& config, const LmConfig& lm) {
  const std::string type = config.String("model_type", "");
  if (type == "personaplex") return Family::kPersonaPlex;
  if (type == "hibiki") return Family::kHibiki;
  if (type == "tts") return Family::kTts;
  const int half = lm.n_q / 2;
  if (type.empty() && lm.dep_q == lm.n_q && lm.n_q % 2 == 0 && half > 0 &&
      std::equal(lm.delays.begin() + 1, lm.delays.begin() + 1 + half,
                 lm.delays.begin() + 1 + half)) {
    return Family::kPersonaPlex;
  }
  return Family::kMoshi;
}

void ParseSchedule(const ConfigReader& config, LmConfig* lm) {
  lm->depth_weights_per_step = config.Bool("depformer_weights_per_step", false);
  const std::string key = "depformer_weights_per_step_schedule";
  if (config.Has(key)) {
    lm->depth_schedule = config.Ints(key, 0, 4096);
    if (static_cast<int>(lm->depth_schedule.size()) != lm->dep_q) {
      config.Fail(key, "dep_q = " + std::to_string(lm->dep_q) + " entries", config.json().at(key));
    }
  } else {
    lm->depth_schedule.resize(static_cast<size_t>(lm->dep_q));
    std::iota(lm->depth_schedule.begin(), lm->depth_schedule.end(), 0);
  }
  lm->depth_weight_sets =
      *std::max_element(lm->depth_schedule.begin(), lm->depth_schedule.end()) + 1;
}

void ParseSampling(const ConfigReader& config, LmConfig* lm) {
  if (!config.Has("lm_gen_config")) return;
  const ConfigReader gen = config.Object("lm_gen_config");
  lm->temp_audio = static_cast<float>(gen.Number("temp", 0.0, 100.0, 0.8));
  lm->temp_text = static_cast<float>(gen.Number("temp_text", 0.0, 100.0, 0.7));
  lm->top_k_audio = gen.Int("top_k", 0, kMaxCard, 250);
  lm->top_k_text = gen.Int("top_k_text", 0, kMaxCard, 25);
}

}  // namespace

LmConfig ParseLmConfig(const std::string& json_text, const std::string& origin) {
  const ConfigReader config(json_text, origin);
  LmConfig lm;
  lm.n_q = config.Int("n_q", 1, 1024);
  lm.dep_q = config.Int("dep_q", 0, lm.n_q);
  lm.card = config.Int("card", 1, kMaxCard);
  lm.text_card = config.Int("text_card", 1, kMaxCard);
  lm.text_card_out = config.Int("text_card_out", 1, kMaxCard, lm.text_card);
  lm.text_padding_id = config.Int("existing_text_padding_id", 0, kMaxCard, 3);
  lm.delays = config.Ints("delays", 0, 1024);
  if (static_cast<int>(lm.delays.size()) != lm.streams()) {
    config.Fail("delays", "n_q + 1 = " + std::to_string(lm.streams()) + " entries",
                config.json().at("delays"));
  }
  lm.temporal = ParseTemporal(config);
  if (lm.dep_q > 0) {
    ParseSchedule(config, &lm);
    lm.depth = ParseDepth(config, lm.temporal, lm.depth_weight_sets);
    lm.depth_codebooks = lm.dep_q;
    lm.depth_multi_linear = config.Bool("depformer_multi_linear", false);
    lm.depth_low_rank = config.Int("depformer_low_rank_embeddings", 1, kMaxDim, 0);
    lm.has_depth_norm = config.Has("depformer_norm");
    lm.depth_norm = OneOf(config, "depformer_norm", kNorms, NormKind::kLayerNorm);
  }
  lm.demux_second_stream = config.Bool("demux_second_stream", false);
  lm.extra_heads = config.Int("extra_heads_num_heads", 0, 1024, 0);
  lm.extra_heads_dim = config.Int("extra_heads_dim", 1, kMaxCard, 6);
  ParseConditioners(config, &lm);
  ParseSampling(config, &lm);
  lm.family = FamilyOf(config, lm);
  if (lm.family == Family::kPersonaPlex && lm.n_q % 2 != 0) {
    config.Fail("n_q", "an even number of codebooks for two speakers", lm.n_q);
  }
  return lm;
}

MimiConfig ParseMimiConfig(const std::string& json_text, const std::string& origin) {
  const ConfigReader config(json_text, origin);
  MimiConfig mimi;
  mimi.sample_rate_hz = config.Int("sample_rate", 8000, 192000, 24000);
  mimi.frame_rate_hz = config.Number("frame_rate", 0.1, 1000.0, 12.5);
  const ConfigReader seanet = config.Object("seanet");
  mimi.dimension = seanet.Int("dimension", 1, kMaxDim);
  mimi.n_filters = seanet.Int("n_filters", 1, kMaxDim);
  mimi.n_residual_layers = seanet.Int("n_residual_layers", 0, 64, 1);
  mimi.compress = seanet.Int("compress", 1, 64, 2);
  mimi.dilation_base = seanet.Int("dilation_base", 1, 64, 2);
  mimi.kernel_size = seanet.Int("kernel_size", 1, 1024, 7);
  mimi.residual_kernel_size = seanet.Int("residual_kernel_size", 1, 1024, 3);
  mimi.last_kernel_size = seanet.Int("last_kernel_size", 1, 1024, 3);
  mimi.ratios = seanet.Ints("ratios", 1, 1024);
  int64_t hop = 1;
  for (const int ratio : mimi.ratios) hop = std::min<int64_t>(hop * ratio, kMaxHop + 1);
  if (mimi.ratios.empty() || mimi.ratios.size() > kMaxRatios || hop > kMaxHop) {
    seanet.Fail("ratios", "1 to 16 strides whose product is at most " + std::to_string(kMaxHop),
                seanet.json().at("ratios"));
  }
  mimi.true_skip = seanet.Bool("true_skip", true);
  if (!mimi.true_skip) seanet.Fail("true_skip", "true (identity skips)", false);
  if (mimi.n_filters % mimi.compress != 0) {
    seanet.Fail("compress", "a divisor of n_filters", mimi.compress);
  }
  const ConfigReader quantizer = config.Object("quantizer");
  mimi.codebooks = quantizer.Int("n_q", 1, 1024);
  mimi.bins = quantizer.Int("bins", 1, kMaxCard);
  mimi.codebook_dim = quantizer.Int("dimension", 1, kMaxDim);

  const ConfigReader transformer = config.Object("transformer");
  TransformerConfig& stack = mimi.transformer;
  stack.dim = transformer.Int("d_model", 2, kMaxDim);
  stack.heads = transformer.Int("num_heads", 1, 4096);
  stack.layers = transformer.Int("num_layers", 0, kMaxLayers);
  stack.context = transformer.Int("context", 1, 1 << 24);
  stack.max_period = static_cast<float>(transformer.Number("max_period", 1.0, 1e12, 10000.0));
  stack.gating = OneOf(transformer, "gating", kGatings, Gating::kNone);
  stack.norm = OneOf(transformer, "norm", kNorms, NormKind::kLayerNorm);
  stack.position = OneOf(transformer, "positional_embedding", kPositions, PositionKind::kRope);
  stack.hidden = Hidden(stack.gating, stack.dim, transformer.Int("dim_feedforward", 1, kMaxDim));
  stack.layer_scale = transformer.Has("layer_scale");
  CheckHeads(transformer, stack, "num_heads");

  const double frames = mimi.sample_rate_hz / mimi.frame_rate_hz;
  if (frames != static_cast<int>(frames) || static_cast<int>(frames) % mimi.hop() != 0) {
    config.Fail(
        "frame_rate",
        "a rate whose frame is a multiple of the encoder's stride " + std::to_string(mimi.hop()),
        mimi.frame_rate_hz);
  }
  return mimi;
}

}  // namespace antiphon::engine
