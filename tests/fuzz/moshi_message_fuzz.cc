// /api/chat: first byte picks what the rest is: a query ("key=value" lines), or messages of a
// length byte each, fed to the Ogg reader as a session does.
#include <cstdint>
#include <cstdlib>

#include "audio/ogg_stream.h"
#include "audio/opus_codec.h"
#include "daemon/moshi_protocol.h"

namespace {

using namespace antiphon;

void Require(bool holds) {
  if (!holds) std::abort();
}

void Query(std::string_view text) {
  std::map<std::string, std::string> query;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t equals = std::min(line.find('='), line.size());
    query.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  engine::EngineInfo info;
  info.voices = {"NATF0"};
  info.takes_text_prompt = true;
  const daemon::MoshiRequest request = daemon::ParseMoshiQuery(query, info);
  Require(request.options.text.temperature >= 0.0F && request.options.text.temperature <= 2.0F);
  Require(request.options.audio.top_k >= 0);
  Require(!daemon::MoshiMetadata(info, request.options).empty());
}

void Messages(std::span<const uint8_t> bytes) {
  audio::OggDemuxer demuxer;
  audio::OpusDecoder decoder;
  std::vector<float> pcm;
  while (!bytes.empty()) {
    const size_t length = std::min<size_t>(bytes[0], bytes.size() - 1);
    const std::span<const uint8_t> ogg = daemon::MoshiAudio(bytes.subspan(1, length));
    bytes = bytes.subspan(1 + length);
    if (ogg.empty()) continue;
    demuxer.Push(ogg, [&](std::span<const uint8_t> packet) {
      if (audio::OpusPacketSamples(packet) <= 0) return;
      pcm.clear();
      decoder.Decode(packet, &pcm);
      Require(pcm.size() <= static_cast<size_t>(audio::kOpusMaxPacketSamples));
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    Query({reinterpret_cast<const char*>(data + 1), size - 1});
  } else {
    Messages({data + 1, size - 1});
  }
  return 0;
}
