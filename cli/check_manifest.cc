// Tensor manifests of full-size models: names and shapes that the configuration implies, both ways.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/check.h"
#include "engine/error.h"

namespace antiphon::cli {

void CheckManifest(const std::string& file, CheckReport& report) {
  std::ifstream in(file);
  const nlohmann::json manifest = nlohmann::json::parse(in, nullptr, false);
  if (!manifest.is_object() || !manifest.contains("config") || !manifest.contains("tensors")) {
    throw InputError(file + ": expected a JSON object with config and tensors");
  }
  const std::string config = manifest["config"].dump();
  const engine::TensorShapes expected =
      manifest["config"].contains("seanet")
          ? engine::ExpectedMimiTensors(engine::ParseMimiConfig(config, file))
          : engine::ExpectedLmTensors(engine::ParseLmConfig(config, file));
  // Names in order, each with 1 where both sides agree on the shape.
  std::vector<int32_t> wanted, found;
  for (const auto& [name, tensor] : manifest["tensors"].items()) {
    wanted.push_back(1);
    const auto it = expected.find(name);
    const bool same =
        it != expected.end() && it->second == tensor["shape"].get<std::vector<int64_t>>();
    found.push_back(same ? 1 : 0);
    if (!same) report.Note(name + (it == expected.end() ? " is not expected" : ": other shape"));
  }
  for (const auto& [name, shape] : expected) {
    if (manifest["tensors"].contains(name)) continue;
    wanted.push_back(1);
    found.push_back(0);
    report.Note(name + " is missing");
  }
  const size_t slash = file.find_last_of('/');
  report.Tokens(file.substr(slash == std::string::npos ? 0 : slash + 1), wanted, found);
}

}  // namespace antiphon::cli
