// A client of /v1/voice (docs/PROTOCOL.md): speaks a recording in real time, listens, and counts.
// Any number of conversations run at once on the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace antiphon::cli {

struct VoiceClientOptions {
  std::string url;        // ws://host[:port][/path] or wss://; the path is /v1/voice unless given
  bool insecure = false;  // take any certificate, e.g. a self-signed one
  std::string voice, text_prompt;  // empty: the model's default
  std::vector<float> sound;        // what is said, 24 kHz mono; silence after it
  double seconds = 0.0;            // length of the conversation, counted from `ready`
  bool keep_sound = false;         // fill VoiceClientReport::sound
  // Called for each piece of text as it comes; may be empty.
  std::function<void(uint64_t time_ms, const std::string& piece)> on_text;
};

// One packet of sound that came: where on the session's clock its first sample lies (24 kHz), and
// when it was here, counted from `ready`.
struct VoiceClientArrival {
  int64_t position = 0;
  std::chrono::nanoseconds at{0};
};

struct VoiceClientReport {
  bool ready = false;  // the conversation began
  std::string error;   // one sentence; "" where it ended as it should
  int close_code = 0;
  // The daemon's counters, as of its last stats message.
  uint64_t frames = 0, late = 0, degraded = 0, starved = 0;
  double oldest_ms = 0.0, dropped_ms = 0.0;
  // Ours.
  uint64_t packets = 0;         // of 20 ms, received
  uint64_t unsent_packets = 0;  // not sent, because the network did not take those before
  std::string text;             // all pieces
  std::vector<float> sound;     // on the session's clock, with silence where nothing came
  std::vector<VoiceClientArrival> arrivals;
};

// Holds the conversations to their end. Faults are reported, never thrown.
std::vector<VoiceClientReport> RunVoiceClients(const std::vector<VoiceClientOptions>& clients);

// The parts of a URL as above; false where it is none.
struct VoiceUrl {
  bool tls = false;
  std::string host, port, path;
};
bool ParseVoiceUrl(const std::string& url, VoiceUrl* parts);

}  // namespace antiphon::cli
