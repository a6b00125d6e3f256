#include "cli/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/doctor_checks.h"
#include "daemon/config_file.h"

namespace antiphon::cli {
namespace {

constexpr const char* kInstalledConfiguration = "/etc/antiphon/antiphond.toml";

void Print(const Finding& finding) {
  constexpr const char* kWords[] = {"ok", "warning", "FAULT"};
  std::printf("%-8s%s\n", kWords[static_cast<size_t>(finding.level)], finding.what.c_str());
  if (!finding.remedy.empty()) std::printf("        -> %s\n", finding.remedy.c_str());
}

daemon::Configuration ReadConfiguration(const std::string& file, std::vector<Finding>* findings) {
  daemon::Configuration configuration;
  if (!file.empty()) daemon::ReadConfigFile(file, &configuration);
  daemon::CheckConfiguration(&configuration);
  for (const std::string& fault : configuration.faults) {
    findings->push_back({Finding::Level::kFault, "configuration: " + fault,
                         "correct it; antiphond --check-config --config FILE looks again"});
  }
  if (configuration.faults.empty()) {
    findings->push_back(
        {Finding::Level::kOk, "configuration: " + (file.empty() ? "built-in values" : file), ""});
  }
  return configuration;
}

}  // namespace

void RegisterDoctor(CLI::App& app, int* exit_status) {
  auto* command = app.add_subcommand("doctor", "Check this installation and this machine");
  const auto file = std::make_shared<std::string>();
  command->add_option("--config", *file,
                      "configuration (default: " + std::string(kInstalledConfiguration) +
                          " if it is there, else the built-in values)");
  command->callback([file, exit_status] {
    std::error_code error;
    if (file->empty() && std::filesystem::exists(kInstalledConfiguration, error)) {
      *file = kInstalledConfiguration;
    }
    std::vector<Finding> findings;
    const daemon::Configuration configuration = ReadConfiguration(*file, &findings);
    for (Finding& finding : CheckAll(configuration.options, "")) {
      findings.push_back(std::move(finding));
    }
    for (const Finding& finding : findings) Print(finding);
    *exit_status = std::any_of(findings.begin(), findings.end(),
                               [](const Finding& f) { return f.level == Finding::Level::kFault; })
                       ? 1
                       : 0;
  });
}

}  // namespace antiphon::cli
