#include "cli/transcript.h"

#include <cstdio>

namespace antiphon::cli {

void Transcript::Add(uint64_t time_ms, std::string_view piece) {
  constexpr uint64_t kPauseMs = 800;
  constexpr size_t kLongLine = 70;
  const bool word = !piece.empty() && piece.front() == ' ';
  if (!line_.empty() && word && (time_ms > last_ms_ + kPauseMs || line_.size() > kLongLine)) {
    Finish();
  }
  if (line_.empty()) begin_ms_ = time_ms;
  line_ += piece;
  last_ms_ = time_ms;
}

void Transcript::Finish() {
  if (line_.empty()) return;
  std::printf("%7.2f s %s\n", static_cast<double>(begin_ms_) / 1000.0, line_.c_str());
  std::fflush(stdout);
  line_.clear();
}

}  // namespace antiphon::cli
