// `antiphon talk IN.wav --url ws(s)://…`: a conversation with a running daemon.
#pragma once

#include <string>
#include <vector>

#include "cli/voice_client.h"

namespace antiphon::cli {

struct TalkUrlOptions {
  std::string url;
  std::string in_wav;              // empty: silence is said
  std::string out_wav;             // empty: none; with several sessions the first one's
  std::string voice, text_prompt;  // empty: the model's default
  bool text = false;               // print the transcript with its times
  bool insecure = false;           // take any certificate
  int sessions = 1;                // conversations at once, 1..1024
  double duration_s = 0.0;         // of each; 0: the recording and kTailSeconds of silence
  static constexpr double kTailSeconds = 5.0;
};

struct TalkUrlResult {
  int failed = 0;  // sessions that did not begin or ended with an error
  std::vector<VoiceClientReport> sessions;
};

// Holds the conversations in real time and prints, on standard output: with `text` one line per
// word or pause of the first session, then one line of counters per session. Throws
// audio::AudioError for files, std::invalid_argument for options out of range.
TalkUrlResult TalkThroughUrl(const TalkUrlOptions& options);

}  // namespace antiphon::cli
