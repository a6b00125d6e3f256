// `antiphon talk`: a conversation without a browser, in this process or with a running daemon
// (--url).
#pragma once

namespace CLI {
class App;
}

namespace antiphon::cli {

// exit_status: 0 if every conversation was held to its end, 1 otherwise.
void RegisterTalk(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
