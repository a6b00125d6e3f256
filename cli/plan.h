// `antiphon plan`: whether a model fits a machine, what bounds it there, and how many sessions come
// out, before anything is bought or loaded.
#pragma once

namespace CLI {
class App;
}

namespace antiphon::cli {

void RegisterPlan(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
