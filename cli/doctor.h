// `antiphon doctor`: is this machine and this installation fit to serve; one line and one remedy
// for each thing looked at.
#pragma once

namespace CLI {
class App;
}

namespace antiphon::cli {

// Exit status 0 where nothing is wrong (warnings are not), 1 otherwise.
void RegisterDoctor(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
