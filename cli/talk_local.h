// `antiphon talk IN.wav`: one conversation with a model in this process, frame by frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace antiphon::cli {

struct TalkLocalOptions {
  std::string in_wav;
  std::string out_wav;             // empty: none
  std::string model = "embedded";  // or "echo", or a checkpoint folder
  std::string executor = "cpu";
  std::string weights = "auto";
  std::string kv = "auto";
  int threads = 0;
  std::string voice, text_prompt;     // empty: the model's default
  std::optional<double> temperature;  // of text and audio; unset: the model's defaults
  uint64_t seed = 0;
  bool text = false;        // print the transcript with its times
  bool real_time = false;   // a frame every 80 ms, as in a call; otherwise as fast as it goes
  double duration_s = 0.0;  // 0: the recording and a few seconds of silence
};

// Prints, on standard output, the transcript and a last line with frames, tick times and late
// frames. Throws InputError and audio::AudioError. Returns the exit status.
int TalkLocally(const TalkLocalOptions& options);

}  // namespace antiphon::cli
