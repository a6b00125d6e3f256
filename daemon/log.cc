#include "daemon/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace antiphon::daemon {

void StartLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("antiphond"));
  spdlog::set_pattern(std::getenv("JOURNAL_STREAM") != nullptr ? "%l: %v"
                                                               : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace antiphon::daemon
