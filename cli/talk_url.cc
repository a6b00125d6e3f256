#include "cli/talk_url.h"

#include <cinttypes>
#include <cstdio>
#include <stdexcept>

#include "audio/opus_codec.h"
#include "audio/wav_file.h"
#include "cli/transcript.h"

namespace antiphon::cli {
namespace {

void PrintCounters(size_t index, const VoiceClientReport& report) {
  std::printf("session %zu: frames %" PRIu64 ", late %" PRIu64 ", degraded %" PRIu64
              ", starved %" PRIu64 ", received %.2f s",
              index + 1, report.frames, report.late, report.degraded, report.starved,
              static_cast<double>(report.packets) * 0.02);
  if (report.unsent_packets > 0) std::printf(", unsent %" PRIu64, report.unsent_packets);
  if (!report.error.empty()) std::printf(", error: %s", report.error.c_str());
  std::printf("\n");
}

}  // namespace

TalkUrlResult TalkThroughUrl(const TalkUrlOptions& options) {
  if (options.sessions < 1 || options.sessions > 1024) {
    throw std::invalid_argument("--sessions: expected 1 to 1024, found " +
                                std::to_string(options.sessions));
  }
  VoiceClientOptions client;
  client.url = options.url;
  client.insecure = options.insecure;
  client.voice = options.voice;
  client.text_prompt = options.text_prompt;
  if (!options.in_wav.empty()) {
    client.sound = audio::ToMono(audio::ReadWav(options.in_wav), audio::kOpusRateHz);
  }
  client.seconds = options.duration_s > 0.0
                       ? options.duration_s
                       : static_cast<double>(client.sound.size()) / audio::kOpusRateHz +
                             TalkUrlOptions::kTailSeconds;
  std::vector<VoiceClientOptions> clients(static_cast<size_t>(options.sessions), client);
  clients[0].keep_sound = !options.out_wav.empty();
  Transcript transcript;
  if (options.text) {
    clients[0].on_text = [&transcript](uint64_t time_ms, const std::string& piece) {
      transcript.Add(time_ms, piece);
    };
  }

  TalkUrlResult result;
  result.sessions = RunVoiceClients(clients);
  transcript.Finish();
  if (!options.out_wav.empty()) {
    audio::WavWriter writer(options.out_wav, audio::kOpusRateHz, 1);
    writer.Write(result.sessions[0].sound);
    writer.Close();
  }
  for (size_t i = 0; i < result.sessions.size(); ++i) {
    PrintCounters(i, result.sessions[i]);
    if (!result.sessions[i].ready || !result.sessions[i].error.empty()) ++result.failed;
  }
  return result;
}

}  // namespace antiphon::cli
