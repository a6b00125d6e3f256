// `antiphon key NAME`: makes a key for callers from other machines.
#pragma once

namespace CLI {
class App;
}

namespace antiphon::cli {

void RegisterKey(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
