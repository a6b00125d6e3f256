// `antiphon bench`: ticks of any model shape, with random weights made in memory and full contexts.
#pragma once

namespace CLI {
class App;
}

namespace antiphon::cli {

void RegisterBench(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
