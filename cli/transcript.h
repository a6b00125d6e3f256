// Pieces of words as they come, put together to lines that begin with their time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace antiphon::cli {

// Prints to standard output: "   1.28 s  hello there". A line ends at a pause of speech, or at the
// first word once it has grown long.
class Transcript {
 public:
  void Add(uint64_t time_ms, std::string_view piece);
  // Prints what is not yet printed.
  void Finish();

 private:
  std::string line_;
  uint64_t begin_ms_ = 0, last_ms_ = 0;
};

}  // namespace antiphon::cli
