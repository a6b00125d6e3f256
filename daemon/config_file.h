// antiphond.toml and command-line overrides, checked against the table of options.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/options.h"

namespace antiphon::daemon {

// What a file and a command line set, and every fault in them. A key at fault keeps its value.
struct Configuration {
  DaemonOptions options;
  std::map<std::string, std::string> origins;  // key that was set: "a.toml:2: " or "--"
  std::vector<std::string> faults;             // "a.toml:2: key: expected ..., found ..."
};

// Reads on past faults, except that text which is not TOML ends at its first.
void ReadConfigText(std::string_view text, const std::string& file, Configuration* configuration);
// As above; a file that cannot be read is a fault.
void ReadConfigFile(const std::string& file, Configuration* configuration);
// One "section.key=value" of the command line. Lists are written with commas between.
void SetOption(std::string_view assignment, Configuration* configuration);
// What no single key can tell: no address at all, a certificate without its key.
void CheckConfiguration(Configuration* configuration);

}  // namespace antiphon::daemon
