// The process's log: lines on stderr, never audio or text of a conversation.
#pragma once

#include <string>

namespace antiphon::daemon {

// Sets spdlog's default logger up, once, before threads start. Level: "debug", "info", "warning",
// "error". Under the journal, which has its own clock, lines have no time and carry their level as
// the journal's priority.
void StartLog(const std::string& level);

}  // namespace antiphon::daemon
