#include "cli/key.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "daemon/credentials.h"

namespace antiphon::cli {

void RegisterKey(CLI::App& app, int* exit_status) {
  struct Arguments {
    std::string name, rights = "talk";
  };
  auto* command = app.add_subcommand("key", "Make a key for callers from other machines");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("NAME", arguments->name, "whose key it is, for the log")->required();
  command->add_option("--rights", arguments->rights,
                      "talk, operate, metrics, and first or last, with + between (default: talk)");
  command->callback([arguments, exit_status] {
    const std::string key = daemon::MakeKeyText();
    const std::string line = daemon::FormatKey(arguments->name, arguments->rights, key);
    daemon::ParseKey(line);
    std::printf("key:        %s\n", key.c_str());
    std::printf("page:       https://ADDRESS/#key=%s\n", key.c_str());
    std::printf("configure:  [security] keys = [\"%s\"]\n", line.c_str());
    *exit_status = 0;
  });
}

}  // namespace antiphon::cli
