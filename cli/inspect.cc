#include "cli/inspect.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

namespace antiphon::cli {
namespace {

using engine::Checkpoint;
using engine::LmConfig;
using engine::MimiConfig;
using engine::SafeTensors;
using engine::TransformerConfig;

// Where tensors whose name begins with `prefix` belong; the first that fits counts.
struct PartRule {
  std::string_view prefix;
  const char* part;
};
constexpr const char* kTemporal = "temporal";
constexpr const char* kDepth = "depth";
constexpr std::array<PartRule, 6> kLmRules = {{{"depformer", kDepth},
                                               {"linears.", kDepth},
                                               {"emb.", "embeddings"},
                                               {"text_emb.", "embeddings"},
                                               {"condition_provider.", "conditioners"},
                                               {"", kTemporal}}};
constexpr std::array<PartRule, 6> kMimiRules = {{{"encoder", "Mimi encoder"},
                                                 {"downsample", "Mimi encoder"},
                                                 {"decoder", "Mimi decoder"},
                                                 {"upsample", "Mimi decoder"},
                                                 {"quantizer", "Mimi quantizer"},
                                                 {"", "Mimi, other"}}};

struct Part {
  std::string name;
  int64_t parameters = 0;
  int64_t bytes = 0;
  std::set<std::string_view> dtypes;
};

template <size_t n>
std::vector<Part> PartsOf(const SafeTensors& file, const std::array<PartRule, n>& rules) {
  std::vector<Part> parts;
  for (const auto& rule : rules) {
    if (parts.empty() || parts.back().name != rule.part) parts.push_back({rule.part, 0, 0, {}});
  }
  for (const auto& [name, view] : file.tensors()) {
    if (name.ends_with("._initialized")) continue;  // a flag, not a parameter
    for (const auto& rule : rules) {
      if (!name.starts_with(rule.prefix)) continue;
      for (Part& part : parts) {
        if (part.name != rule.part) continue;
        part.parameters += view.elements();
        part.bytes += static_cast<int64_t>(view.bytes());
        part.dtypes.insert(engine::DtypeName(view.dtype));
      }
      break;
    }
  }
  std::erase_if(parts, [](const Part& part) { return part.parameters == 0; });
  return parts;
}

std::string Format(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

// "7.69 B", "5.85 M", "952"
std::string Count(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return Format("%.2f B", value / 1e9);
  if (value >= 1e6) return Format("%.2f M", value / 1e6);
  if (value >= 1e4) return Format("%.1f k", value / 1e3);
  return std::to_string(count);
}

// Decimal units, as hubs and disks give sizes.
std::string Bytes(double bytes) {
  if (bytes >= 1e9) return Format("%.2f GB", bytes / 1e9);
  if (bytes >= 1e6) return Format("%.2f MB", bytes / 1e6);
  return Format("%.1f kB", bytes / 1e3);
}

std::string Line(const char* label, const std::string& text) {
  return Format("%-14s", label) + text + "\n";
}

std::string PartLine(const Part& part) {
  std::string dtypes;
  for (const std::string_view dtype : part.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + std::string(dtype);
  }
  return Format("  %-16s%10s%12s  ", part.name.c_str(), Count(part.parameters).c_str(),
                Bytes(static_cast<double>(part.bytes)).c_str()) +
         dtypes + "\n";
}

const char* FamilyName(engine::Family family) {
  switch (family) {
    case engine::Family::kMoshi:
      return "Moshi";
    case engine::Family::kPersonaPlex:
      return "PersonaPlex";
    case engine::Family::kHibiki:
      return "Hibiki";
    case engine::Family::kTts:
      return "text to speech";
  }
  return "unknown";
}

// Key and value elements that one session keeps in a stack.
double KvElements(const TransformerConfig& stack) {
  return 2.0 * stack.layers * stack.context * (stack.dim / stack.kv_repeat);
}

std::string StackText(const TransformerConfig& stack) {
  return Format("%d layers, width %d, %d heads of %d, feed-forward %d", stack.layers, stack.dim,
                stack.heads, stack.head_dim(), stack.hidden);
}

// Delays in stream order, speakers set apart by bars.
std::string Delays(const LmConfig& lm) {
  std::string text;
  for (int k = 0; k < lm.streams(); ++k) {
    const bool boundary = k == 1 || (k == lm.agent_codes() + 1 && k > 1);
    text += (k == 0 ? "" : boundary ? " | " : " ");
    text += std::to_string(lm.delays[static_cast<size_t>(k)]);
  }
  return text;
}

std::string DescribeLm(const LmConfig& lm, const MimiConfig* mimi) {
  const double rate = mimi != nullptr ? mimi->frame_rate_hz : MimiConfig().frame_rate_hz;
  std::string out;
  out += Line("streams", Format("%d: text, %d of the agent's codebooks, %d of the caller's",
                                lm.streams(), lm.agent_codes(), lm.user_codes()));
  out += Line("delays", Delays(lm) + " frames");
  out += Line("vocabulary", Format("%d text tokens, %d codes per codebook", lm.text_card, lm.card));
  out += Line("temporal", StackText(lm.temporal));
  if (lm.dep_q > 0) {
    out += Line("depth", StackText(lm.depth) +
                             Format(", %d steps, %d weight sets", lm.dep_q, lm.depth_weight_sets));
  } else {
    out += Line("depth", "none: the model gives text only");
  }
  out +=
      Line("context", Format("%d frames, %.1f s", lm.temporal.context, lm.temporal.context / rate));
  const double elements = KvElements(lm.temporal);
  out +=
      Line("KV / session", Bytes(elements * 4) + " in fp32, " + Bytes(elements * 2) + " in bf16");
  return out;
}

std::string DescribeMimi(const Checkpoint& checkpoint) {
  const MimiConfig& mimi = *checkpoint.mimi_config();
  std::string out;
  out += Line("frame rate", Format("%g Hz, %d samples at %d Hz", mimi.frame_rate_hz,
                                   mimi.frame_samples(), mimi.sample_rate_hz));
  out += Line("codec", Format("%d of %d codebooks in use, %d codes each, transformers: ",
                              checkpoint.mimi_codebooks(), mimi.codebooks, mimi.bins) +
                           StackText(mimi.transformer));
  // Encoder and decoder have a transformer each; the codec always runs in float32 (section 3.8).
  out += Line("codec KV", Bytes(2 * KvElements(mimi.transformer) * 4) + " per session in fp32");
  return out;
}

}  // namespace

std::string DescribeCheckpoint(const Checkpoint& checkpoint) {
  const LmConfig* lm = checkpoint.lm_config();
  std::string out = Line("folder", checkpoint.folder());
  out += Line("family", lm != nullptr ? FamilyName(lm->family) : "Mimi codec alone");
  if (checkpoint.lm_config_inferred()) {
    out += Line("configuration",
                "inferred from the tensors; heads, context and delays as published. "
                "A config.json with \"dim\" and the other keys overrides it");
  }
  if (lm != nullptr) out += DescribeLm(*lm, checkpoint.mimi_config());
  if (checkpoint.mimi_config() != nullptr) out += DescribeMimi(checkpoint);
  if (checkpoint.tokenizer() != nullptr) {
    out += Line("tokenizer", std::to_string(checkpoint.tokenizer()->size()) + " pieces");
  }
  std::vector<Part> parts;
  if (checkpoint.lm() != nullptr) parts = PartsOf(*checkpoint.lm(), kLmRules);
  if (checkpoint.mimi() != nullptr) {
    for (Part& part : PartsOf(*checkpoint.mimi(), kMimiRules)) parts.push_back(std::move(part));
  }
  Part total{"total", 0, 0, {}};
  out += "parameters\n";
  for (const Part& part : parts) {
    out += PartLine(part);
    total.parameters += part.parameters;
    total.bytes += part.bytes;
    total.dtypes.insert(part.dtypes.begin(), part.dtypes.end());
  }
  out += PartLine(total);
  if (checkpoint.missing().empty()) out += Line("missing", "nothing");
  for (const std::string& what : checkpoint.missing()) out += Line("missing", what);
  return out;
}

void RegisterInspect(CLI::App& app, int* exit_status) {
  auto* command = app.add_subcommand("inspect", "Print what a checkpoint folder is");
  const auto folder = std::make_shared<std::string>();
  command->add_option("DIR", *folder, "checkpoint folder, or \"embedded\"")->required();
  command->callback([folder, exit_status] {
    const std::string path = *folder == "embedded" ? engine::FindBuiltInModel(*folder) : *folder;
    std::fputs(DescribeCheckpoint(Checkpoint::Open(path)).c_str(), stdout);
    *exit_status = 0;
  });
}

}  // namespace antiphon::cli
