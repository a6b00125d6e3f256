// Ogg-Opus (RFC 3533, RFC 7845): pages to packets as they arrive in pieces, and packets to pages.
// Both classes belong to one thread at a time and own what they hold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace antiphon::audio {

// OpusHead (RFC 7845 section 5.1).
struct OpusHead {
  int channels = 1;
  int pre_skip = 0;       // samples at 48 kHz that the player drops at the start
  int input_rate_hz = 0;  // of the original sound, for information; 0 unknown
  int output_gain = 0;    // Q7.8 dB
};

// OpusTags (RFC 7845 section 5.2).
struct OpusTags {
  std::string vendor;
  std::vector<std::string> comments;  // "KEY=value"
};

// Takes bytes split or joined anywhere, skips garbage between pages, follows chained streams, and
// passes Opus packets on. Of interleaved streams the one that began last is followed. It buffers
// at most one page and one packet, so a peer cannot make it grow.
class OggDemuxer {
 public:
  using OnPacket = std::function<void(std::span<const uint8_t> packet)>;

  OggDemuxer();
  ~OggDemuxer();
  OggDemuxer(OggDemuxer&&) noexcept;
  OggDemuxer& operator=(OggDemuxer&&) noexcept;

  // Calls on_packet for each sound packet that these bytes complete, in order; the span is valid
  // during the call. Header packets are kept here. A stream joined in its middle, without OpusHead,
  // is followed too: clients that reconnect may leave it out.
  void Push(std::span<const uint8_t> bytes, const OnPacket& on_packet);

  bool has_head() const noexcept;
  // Of the stream that is being followed; as constructed before the first.
  const OpusHead& head() const noexcept;
  const OpusTags& tags() const noexcept;
  // Streams begun (chained ones count each).
  uint64_t streams() const noexcept;
  // The end page of the followed stream was seen.
  bool ended() const noexcept;
  // Runs of garbage, pages lost, headers that do not parse, packets too long to be Opus.
  uint64_t faults() const noexcept;

  // Longest packet taken: 48 frames of 1275 bytes and their lengths, rounded up.
  static constexpr size_t kMaxPacketBytes = 1 << 16;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Makes one Ogg-Opus stream, one packet a page so that each can leave at once.
class OggMuxer {
 public:
  // `head` as it is to stand in the stream, 1 or 2 channels; throws std::invalid_argument else.
  OggMuxer(uint32_t serial, const OpusHead& head, const std::string& vendor);
  ~OggMuxer();
  OggMuxer(OggMuxer&&) noexcept;
  OggMuxer& operator=(OggMuxer&&) noexcept;

  // The two header pages. REQUIRES: called once, before the first Page.
  std::vector<uint8_t> Headers();
  // The page with `packet`, `samples_48k` long; the granule position is the sum of all up to and
  // with this one. `last` marks the end of the stream. REQUIRES: packet of at most 65,024 bytes.
  std::vector<uint8_t> Page(std::span<const uint8_t> packet, int samples_48k, bool last = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::audio
