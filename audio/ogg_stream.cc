#include "audio/ogg_stream.h"

#include <ogg/ogg.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace antiphon::audio {
namespace {

constexpr std::string_view kHeadMagic = "OpusHead";
constexpr std::string_view kTagsMagic = "OpusTags";
// More comments than this are left unread; a tag block may name four thousand million of them.
constexpr size_t kMaxComments = 256;
// Bytes given to libogg at once: it buffers what it is given until a page is whole.
constexpr size_t kPiece = 4096;

bool BeginsWith(std::span<const uint8_t> packet, std::string_view magic) {
  return packet.size() >= magic.size() &&
         std::memcmp(packet.data(), magic.data(), magic.size()) == 0;
}

uint32_t ReadLe(std::span<const uint8_t> bytes, size_t at, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | bytes[at + static_cast<size_t>(i)];
  return value;
}

void AppendLe(std::vector<uint8_t>* bytes, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void AppendText(std::vector<uint8_t>* bytes, std::string_view text) {
  bytes->insert(bytes->end(), text.begin(), text.end());
}

// RFC 7845 5.1: magic 8, version 1, channels 1, pre-skip 2, rate 4, gain 2, mapping family 1.
bool ParseHead(std::span<const uint8_t> packet, OpusHead* head) {
  if (packet.size() < 19 || !BeginsWith(packet, kHeadMagic)) return false;
  if (packet[8] > 15 || packet[9] == 0) return false;  // only the major version must be 0
  head->channels = packet[9];
  head->pre_skip = static_cast<int>(ReadLe(packet, 10, 2));
  head->input_rate_hz = static_cast<int>(std::min<uint32_t>(ReadLe(packet, 12, 4), 1U << 30));
  head->output_gain = static_cast<int16_t>(ReadLe(packet, 16, 2));
  return true;
}

// RFC 7845 5.2: magic 8, vendor length 4 and text, count 4, then length and text of each comment.
bool ParseTags(std::span<const uint8_t> packet, OpusTags* tags) {
  if (!BeginsWith(packet, kTagsMagic)) return false;
  size_t at = kTagsMagic.size();
  const auto read_number = [&](uint32_t* value) {
    if (packet.size() - at < 4) return false;
    *value = ReadLe(packet, at, 4);
    at += 4;
    return true;
  };
  const auto read_text = [&](std::string* text) {
    uint32_t length = 0;
    if (!read_number(&length) || packet.size() - at < length) return false;
    text->assign(packet.begin() + static_cast<std::ptrdiff_t>(at),
                 packet.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
    return true;
  };
  uint32_t count = 0;
  if (!read_text(&tags->vendor) || !read_number(&count)) return false;
  for (uint32_t i = 0; i < count && tags->comments.size() < kMaxComments; ++i) {
    if (!read_text(&tags->comments.emplace_back())) return false;
  }
  return true;
}

}  // namespace

struct OggDemuxer::State {
  State() {
    ogg_sync_init(&sync);
    ogg_stream_init(&stream, 0);
  }
  ~State() {
    ogg_stream_clear(&stream);
    ogg_sync_clear(&sync);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void TakePage(ogg_page* page, const OnPacket& on_packet);
  void TakePacket(std::span<const uint8_t> packet, const OnPacket& on_packet);

  ogg_sync_state sync;
  ogg_stream_state stream;
  bool following = false;  // `stream` has a serial
  bool has_head = false, ended = false;
  OpusHead head;
  OpusTags tags;
  uint64_t streams = 0, faults = 0;
};

OggDemuxer::OggDemuxer() : state_(std::make_unique<State>()) {}
OggDemuxer::~OggDemuxer() = default;
OggDemuxer::OggDemuxer(OggDemuxer&&) noexcept = default;
OggDemuxer& OggDemuxer::operator=(OggDemuxer&&) noexcept = default;

void OggDemuxer::Push(std::span<const uint8_t> bytes, const OnPacket& on_packet) {
  State& state = *state_;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kPiece);
    char* buffer = ogg_sync_buffer(&state.sync, static_cast<long>(count));
    if (buffer == nullptr) throw std::bad_alloc();
    std::memcpy(buffer, bytes.data(), count);
    ogg_sync_wrote(&state.sync, static_cast<long>(count));
    bytes = bytes.subspan(count);
    ogg_page page;
    int got = 0;
    while ((got = ogg_sync_pageout(&state.sync, &page)) != 0) {
      if (got > 0) {
        state.TakePage(&page, on_packet);
      } else {
        ++state.faults;
      }
    }
  }
}

void OggDemuxer::State::TakePage(ogg_page* page, const OnPacket& on_packet) {
  const int serial = ogg_page_serialno(page);
  if (ogg_page_bos(page) != 0 || !following) {
    ogg_stream_reset_serialno(&stream, serial);
    following = true;
    has_head = ended = false;
    head = OpusHead{};
    tags = OpusTags{};
    ++streams;
  } else if (serial != stream.serialno) {
    ++faults;
    return;
  }
  if (ogg_stream_pagein(&stream, page) != 0) {
    ++faults;
    return;
  }
  ogg_packet packet;
  int got = 0;
  while ((got = ogg_stream_packetout(&stream, &packet)) != 0) {
    if (got < 0) {
      ++faults;
      continue;
    }
    TakePacket({packet.packet, static_cast<size_t>(packet.bytes)}, on_packet);
  }
  // A packet continued over pages without end is not Opus.
  if (stream.body_fill - stream.body_returned > static_cast<long>(kMaxPacketBytes)) {
    ogg_stream_reset(&stream);
    ++faults;
  }
  ended = ended || ogg_page_eos(page) != 0;
}

void OggDemuxer::State::TakePacket(std::span<const uint8_t> packet, const OnPacket& on_packet) {
  if (BeginsWith(packet, kHeadMagic)) {
    OpusHead parsed;
    if (!ParseHead(packet, &parsed)) {
      ++faults;
      return;
    }
    head = parsed;
    has_head = true;
  } else if (BeginsWith(packet, kTagsMagic)) {
    OpusTags parsed;
    if (!ParseTags(packet, &parsed)) ++faults;
    tags = std::move(parsed);
  } else if (packet.size() > kMaxPacketBytes) {
    ++faults;
  } else if (!packet.empty()) {
    on_packet(packet);
  }
}

bool OggDemuxer::has_head() const noexcept { return state_->has_head; }
const OpusHead& OggDemuxer::head() const noexcept { return state_->head; }
const OpusTags& OggDemuxer::tags() const noexcept { return state_->tags; }
uint64_t OggDemuxer::streams() const noexcept { return state_->streams; }
bool OggDemuxer::ended() const noexcept { return state_->ended; }
uint64_t OggDemuxer::faults() const noexcept { return state_->faults; }

struct OggMuxer::State {
  explicit State(uint32_t serial) { ogg_stream_init(&stream, static_cast<int>(serial)); }
  ~State() { ogg_stream_clear(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Appends the page that ends with this packet.
  void Append(std::span<const uint8_t> bytes, bool begin, bool end, std::vector<uint8_t>* out) {
    ogg_packet packet{};
    // libogg only reads the packet.
    packet.packet = const_cast<uint8_t*>(bytes.data());
    packet.bytes = static_cast<long>(bytes.size());
    packet.b_o_s = begin ? 1 : 0;
    packet.e_o_s = end ? 1 : 0;
    packet.granulepos = granule;
    packet.packetno = number++;
    if (ogg_stream_packetin(&stream, &packet) != 0) throw std::bad_alloc();
    ogg_page page;
    while (ogg_stream_flush(&stream, &page) != 0) {
      out->insert(out->end(), page.header, page.header + page.header_len);
      out->insert(out->end(), page.body, page.body + page.body_len);
    }
  }

  ogg_stream_state stream;
  OpusHead head;
  std::string vendor;
  ogg_int64_t granule = 0, number = 0;
};

OggMuxer::OggMuxer(uint32_t serial, const OpusHead& head, const std::string& vendor)
    : state_(std::make_unique<State>(serial)) {
  if (head.channels < 1 || head.channels > 2) {
    throw std::invalid_argument("OpusHead: expected 1 or 2 channels, found " +
                                std::to_string(head.channels));
  }
  state_->head = head;
  state_->vendor = vendor;
}

OggMuxer::~OggMuxer() = default;
OggMuxer::OggMuxer(OggMuxer&&) noexcept = default;
OggMuxer& OggMuxer::operator=(OggMuxer&&) noexcept = default;

std::vector<uint8_t> OggMuxer::Headers() {
  assert(state_->number == 0);
  std::vector<uint8_t> packet, pages;
  AppendText(&packet, kHeadMagic);
  packet.push_back(1);  // version
  packet.push_back(static_cast<uint8_t>(state_->head.channels));
  AppendLe(&packet, static_cast<uint32_t>(state_->head.pre_skip), 2);
  AppendLe(&packet, static_cast<uint32_t>(state_->head.input_rate_hz), 4);
  AppendLe(&packet, static_cast<uint32_t>(state_->head.output_gain), 2);
  packet.push_back(0);  // mapping family: mono or stereo
  state_->Append(packet, true, false, &pages);

  packet.clear();
  AppendText(&packet, kTagsMagic);
  AppendLe(&packet, static_cast<uint32_t>(state_->vendor.size()), 4);
  AppendText(&packet, state_->vendor);
  AppendLe(&packet, 0, 4);  // no comments
  state_->Append(packet, false, false, &pages);
  return pages;
}

std::vector<uint8_t> OggMuxer::Page(std::span<const uint8_t> packet, int samples_48k, bool last) {
  assert(packet.size() <= 65024);
  state_->granule += samples_48k;
  std::vector<uint8_t> page;
  page.reserve(packet.size() + 64);
  state_->Append(packet, false, last, &page);
  return page;
}

}  // namespace antiphon::audio
