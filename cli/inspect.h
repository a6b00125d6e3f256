// `antiphon inspect DIR`: what a checkpoint folder is and what it costs to run.
#pragma once

#include <string>

#include "engine/checkpoint.h"

namespace CLI {
class App;
}

namespace antiphon::cli {

// The description that `inspect` prints: family, streams and delays, parameters and bytes per part,
// frame rate, context, key/value bytes per session, what is missing. Lines end in '\n'.
std::string DescribeCheckpoint(const engine::Checkpoint& checkpoint);

void RegisterInspect(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
