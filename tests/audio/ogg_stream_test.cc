#include "audio/ogg_stream.h"

#include <gtest/gtest.h>
#include <ogg/ogg.h>

#include <cstring>
#include <random>
#include <stdexcept>

namespace antiphon::audio {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Packet(int n, size_t size) {
  Bytes packet(size);
  for (size_t i = 0; i < size; ++i)
    packet[i] = static_cast<uint8_t>(static_cast<size_t>(n) * 31 + i);
  return packet;
}

// A stream of `sizes.size()` packets.
Bytes Stream(uint32_t serial, const std::vector<size_t>& sizes, int pre_skip = 312) {
  OpusHead head;
  head.pre_skip = pre_skip;
  head.input_rate_hz = 44100;
  OggMuxer muxer(serial, head, "Antiphon");
  Bytes stream = muxer.Headers();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Bytes page =
        muxer.Page(Packet(static_cast<int>(i), sizes[i]), 960, i + 1 == sizes.size());
    stream.insert(stream.end(), page.begin(), page.end());
  }
  return stream;
}

const std::vector<size_t> kSizes = {1, 80, 254, 255, 256, 510, 1275, 3};

std::vector<Bytes> Demux(OggDemuxer& demuxer, std::span<const uint8_t> bytes) {
  std::vector<Bytes> packets;
  demuxer.Push(bytes, [&](std::span<const uint8_t> packet) {
    packets.emplace_back(packet.begin(), packet.end());
  });
  return packets;
}

void ExpectAll(const std::vector<Bytes>& packets) {
  ASSERT_EQ(packets.size(), kSizes.size());
  for (size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(packets[i], Packet(static_cast<int>(i), kSizes[i]));
  }
}

TEST(OggStreamTest, MuxedPagesAreAsTheRfcAsks) {
  OpusHead head;
  head.pre_skip = 3840;
  head.input_rate_hz = 48000;
  OggMuxer muxer(0xCAFE1234, head, "Antiphon");
  const Bytes headers = muxer.Headers();
  ASSERT_GT(headers.size(), 47U);
  EXPECT_EQ(std::memcmp(headers.data(), "OggS\0\2", 6), 0) << "begins the stream";
  EXPECT_EQ(std::memcmp(&headers[28], "OpusHead\1\1", 10), 0);
  EXPECT_EQ(headers[38] | headers[39] << 8, 3840);
  EXPECT_EQ(std::memcmp(&headers[47], "OggS\0\0", 6), 0) << "tags are alone on the second page";
  for (int n = 1; n <= 3; ++n) {
    const Bytes page = muxer.Page(Packet(n, 100), 960, n == 3);
    EXPECT_EQ(std::memcmp(page.data(), "OggS", 4), 0);
    EXPECT_EQ(page[5], n == 3 ? 4 : 0) << "end of stream";
    int64_t granule = 0;
    std::memcpy(&granule, &page[6], 8);
    EXPECT_EQ(granule, 960 * n);
    uint32_t serial = 0, sequence = 0;
    std::memcpy(&serial, &page[14], 4);
    std::memcpy(&sequence, &page[18], 4);
    EXPECT_EQ(serial, 0xCAFE1234);
    EXPECT_EQ(sequence, static_cast<uint32_t>(n + 1));
    EXPECT_EQ(page.size(), 28U + 100U);
  }
  head.channels = 3;
  EXPECT_THROW(OggMuxer(1, head, ""), std::invalid_argument);
}

TEST(OggStreamTest, SplitAtEveryByte) {
  const Bytes stream = Stream(7, kSizes);
  for (size_t split = 0; split <= stream.size(); ++split) {
    OggDemuxer demuxer;
    std::vector<Bytes> packets = Demux(demuxer, std::span(stream).first(split));
    for (auto& packet : Demux(demuxer, std::span(stream).subspan(split))) {
      packets.push_back(std::move(packet));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAll(packets)) << split;
    ASSERT_EQ(demuxer.faults(), 0U);
  }
}

TEST(OggStreamTest, ByteByByteAndAllAtOnce) {
  const Bytes stream = Stream(7, kSizes);
  OggDemuxer slow, fast;
  std::vector<Bytes> packets;
  for (const uint8_t byte : stream) {
    for (auto& packet : Demux(slow, {&byte, 1})) packets.push_back(std::move(packet));
  }
  ExpectAll(packets);
  EXPECT_TRUE(slow.ended());
  ExpectAll(Demux(fast, stream));
  EXPECT_TRUE(fast.has_head());
  EXPECT_EQ(fast.head().channels, 1);
  EXPECT_EQ(fast.head().pre_skip, 312);
  EXPECT_EQ(fast.head().input_rate_hz, 44100);
  EXPECT_EQ(fast.tags().vendor, "Antiphon");
}

TEST(OggStreamTest, ChainedStreamsAreFollowed) {
  OggDemuxer demuxer;
  ExpectAll(Demux(demuxer, Stream(1, kSizes, 100)));
  EXPECT_EQ(demuxer.head().pre_skip, 100);
  ExpectAll(Demux(demuxer, Stream(2, kSizes, 200)));
  EXPECT_EQ(demuxer.head().pre_skip, 200);
  ExpectAll(Demux(demuxer, Stream(2, kSizes, 300)));  // a client that starts again, same serial
  EXPECT_EQ(demuxer.head().pre_skip, 300);
  EXPECT_EQ(demuxer.streams(), 3U);
  EXPECT_EQ(demuxer.faults(), 0U);
}

TEST(OggStreamTest, GarbageIsSkippedAndCounted) {
  OggDemuxer demuxer;
  std::mt19937 random(1);
  Bytes garbage(5000);
  for (uint8_t& byte : garbage) byte = static_cast<uint8_t>(random());
  garbage.insert(garbage.end(), {'O', 'g', 'g', 'S', 0, 0});  // a false start
  EXPECT_TRUE(Demux(demuxer, garbage).empty());
  ExpectAll(Demux(demuxer, Stream(9, kSizes)));
  EXPECT_GE(demuxer.faults(), 1U);
}

TEST(OggStreamTest, ADamagedPageCostsItsOwnPacketOnly) {
  Bytes stream = Stream(9, kSizes);
  const size_t third_last = stream.size() - (3 + 28) - (1275 + 27 + 6) - 10;
  stream[third_last] ^= 0x40;  // in the packet of 510 bytes: its checksum fails
  OggDemuxer demuxer;
  const std::vector<Bytes> packets = Demux(demuxer, stream);
  ASSERT_EQ(packets.size(), kSizes.size() - 1);
  EXPECT_EQ(packets[4], Packet(4, kSizes[4]));
  EXPECT_EQ(packets[5], Packet(6, kSizes[6]));
  EXPECT_GE(demuxer.faults(), 1U);
}

TEST(OggStreamTest, AStreamJoinedInItsMiddleIsFollowed) {
  OpusHead head;
  OggMuxer muxer(5, head, "x");
  muxer.Headers();
  muxer.Page(Packet(0, 50), 960);
  OggDemuxer demuxer;
  const std::vector<Bytes> packets = Demux(demuxer, muxer.Page(Packet(1, 50), 960));
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0], Packet(1, 50));
  EXPECT_FALSE(demuxer.has_head());
}

TEST(OggStreamTest, BrokenHeadersAreCountedAndSoundGoesOn) {
  OggMuxer muxer(5, OpusHead{}, "x");
  muxer.Headers();
  OggDemuxer demuxer;
  const auto push_text = [&](const std::string& text) {
    return Demux(demuxer,
                 muxer.Page({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0))
        .size();
  };
  EXPECT_EQ(push_text("OpusHead"), 0U);
  EXPECT_EQ(push_text("OpusTags\xff\xff\xff\xff"), 0U);
  EXPECT_EQ(push_text(std::string("OpusTags\0\0\0\0\xff\xff\xff\xff", 16)), 0U);
  EXPECT_EQ(demuxer.faults(), 3U);
  EXPECT_EQ(push_text("sound"), 1U);
}

// A page whose 255 segments are all full: its packet goes on on the next page.
Bytes UnendingPage(uint32_t sequence) {
  ogg_page page;
  Bytes header(27 + 255, 0), body(size_t{255} * 255, 1);
  std::memcpy(header.data(), "OggS", 4);
  header[5] = sequence == 0 ? 2 : 1;  // begins, goes on
  std::memcpy(&header[18], &sequence, 4);
  header[26] = 255;
  std::fill(header.begin() + 27, header.end(), uint8_t{255});
  page.header = header.data();
  page.header_len = static_cast<long>(header.size());
  page.body = body.data();
  page.body_len = static_cast<long>(body.size());
  ogg_page_checksum_set(&page);
  header.insert(header.end(), body.begin(), body.end());
  return header;
}

TEST(OggStreamTest, APacketWithoutEndIsGivenUp) {
  OggDemuxer demuxer;
  for (uint32_t n = 0; n < 20; ++n) EXPECT_TRUE(Demux(demuxer, UnendingPage(n)).empty());
  EXPECT_GE(demuxer.faults(), 1U);
  ExpectAll(Demux(demuxer, Stream(9, kSizes)));
}

}  // namespace
}  // namespace antiphon::audio
