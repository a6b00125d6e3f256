// The configuration file (TOML) and --section.key=value, read into DaemonOptions by its table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/options.h"

namespace antiphon::daemon {

// Reads TOML text. `file` is its name for messages. All faults are reported together in one
// InputError, one a line: "FILE:LINE: section.key: expected ..., found ...".
void ReadConfig(std::string_view text, const std::string& file, DaemonOptions& options);

// ReadConfig of a file's content. Throws InputError if it cannot be read.
void ReadConfigFile(const std::string& file, DaemonOptions& options);

// Sets one key ("section.key") from the command line; lists are separated by commas. Throws
// InputError.
void OverrideOption(const std::string& key, const std::string& value, DaemonOptions& options);

// The shipped file: every default as a comment.
std::string DefaultConfig();
// The options as a file that reads back to them.
std::string PrintConfig(DaemonOptions options);
// One paragraph a key, for --help.
std::string DescribeOptions();

}  // namespace antiphon::daemon
