#include "daemon/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace antiphon::daemon {
namespace {

// "<6>": the line's priority as sd-daemon(3) has it, which the journal takes off and keeps.
class JournalPriority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    constexpr char kPriorities[] = {'7', '7', '6', '4', '3', '2', '6'};  // trace ... off
    out.push_back('<');
    out.push_back(kPriorities[message.level]);
    out.push_back('>');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }
};

}  // namespace

void StartLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("antiphond"));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('*');
  formatter->set_pattern(std::getenv("JOURNAL_STREAM") != nullptr ? "%*%v"
                                                                  : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  spdlog::set_formatter(std::move(formatter));
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace antiphon::daemon
