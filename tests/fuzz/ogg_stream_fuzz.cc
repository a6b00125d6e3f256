// Ogg bytes: the lower seven bits of the first byte are the length of the pieces that the rest is
// pushed in; its highest bit has the pages' checksums put right first, so that mutations get past
// them. The packets must be the same as when all is pushed at once.
#include <ogg/ogg.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "audio/ogg_stream.h"

namespace {

using antiphon::audio::OggDemuxer;

void Require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::vector<uint8_t>> Demux(std::span<const uint8_t> bytes, size_t piece) {
  OggDemuxer demuxer;
  std::vector<std::vector<uint8_t>> packets;
  while (!bytes.empty()) {
    const size_t count = std::min(piece, bytes.size());
    demuxer.Push(bytes.first(count), [&](std::span<const uint8_t> packet) {
      Require(!packet.empty() && packet.size() <= OggDemuxer::kMaxPacketBytes);
      packets.emplace_back(packet.begin(), packet.end());
    });
    bytes = bytes.subspan(count);
  }
  Require(!demuxer.has_head() || demuxer.head().channels > 0);
  return packets;
}

void RepairChecksums(std::span<uint8_t> bytes) {
  for (size_t at = 0; at + 27 <= bytes.size(); ++at) {
    if (std::memcmp(&bytes[at], "OggS", 4) != 0) continue;
    const size_t segments = bytes[at + 26], header = 27 + segments;
    if (at + header > bytes.size()) continue;
    size_t body = 0;
    for (size_t i = 0; i < segments; ++i) body += bytes[at + 27 + i];
    if (at + header + body > bytes.size()) continue;
    ogg_page page{&bytes[at], static_cast<long>(header), bytes.data() + at + header,
                  static_cast<long>(body)};
    ogg_page_checksum_set(&page);
    at += header + body - 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  if (data[0] >= 0x80) RepairChecksums(bytes);
  Require(Demux(bytes, size_t{1} + (data[0] & 0x7F)) == Demux(bytes, bytes.size()));
  return 0;
}
