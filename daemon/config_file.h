// antiphond.toml and command-line overrides, checked against the table of options.h.
#pragma once

#include <string>
#include <string_view>

#include "daemon/options.h"

namespace antiphon::daemon {

// Sets what the text says. Throws InputError naming `file`, line, key, expected and found.
void ReadConfigText(std::string_view text, const std::string& file, DaemonOptions* options);
// As above for a file; InputError too if it cannot be read.
void ReadConfigFile(const std::string& file, DaemonOptions* options);
// One "section.key=value" of the command line. Lists are written with commas between.
void SetOption(std::string_view assignment, DaemonOptions* options);
// What no single key can tell: addresses, and a key without its certificate. Throws InputError.
void CheckOptions(const DaemonOptions& options);

}  // namespace antiphon::daemon
