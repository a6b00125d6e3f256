// One session's codec work: the caller's packets to its lane, the lane's frames to packets. All of
// it runs on the codec pool, in order; the I/O thread only posts.
//
// What arrives waits in an inbox of at most kInboxMs, oldest dropped first: after a stall the
// newest sound is what matters.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "audio/codec_pool.h"
#include "audio/opus_codec.h"
#include "daemon/clock.h"
#include "daemon/lane.h"

namespace antiphon::daemon {

inline constexpr int kPacketMs = 20;
inline constexpr int kPacketsPerFrame = kFrameMs / kPacketMs;

enum class SoundFormat { kOpus, kPcm16 };

// One frame as the wire protocols send it: Opus packets, or 16-bit little-endian samples.
struct EncodedFrame {
  uint64_t number = 0;
  Time deadline;
  int32_t text_token = engine::FrameIo::kNoText;
  std::array<std::vector<uint8_t>, kPacketsPerFrame> packets;
};

class SoundPath {
 public:
  // `on_frame` is called on a codec thread, in the frames' order. REQUIRES: the lane is this
  // session's until the path is gone.
  SoundPath(audio::CodecPool& pool, Lane& lane, Clock& clock,
            const audio::OpusEncoderOptions& encoder, SoundFormat format,
            std::function<void(EncodedFrame)> on_frame);
  // Waits for the job in progress, a few hundred microseconds at most.
  ~SoundPath();
  SoundPath(const SoundPath&) = delete;
  SoundPath& operator=(const SoundPath&) = delete;

  // I/O thread. False where the packet is not a legal one.
  bool PushOpus(std::span<const uint8_t> packet);
  // Little-endian samples, 24 kHz; REQUIRES: an even number of bytes, at most 120 ms.
  void PushPcm16(std::span<const uint8_t> bytes);
  // One packet of 20 ms was lost on the way.
  void PushLoss();
  // Encodes what the lane's ring holds.
  void EncodeDue();

  // Any thread.
  uint64_t lost_packets() const { return lost_.load(std::memory_order_relaxed); }
  // Of the lost ones, those that came and would not decode.
  uint64_t broken_packets() const { return broken_.load(std::memory_order_relaxed); }
  // Codec jobs that a full strand refused.
  uint64_t refused_jobs() const { return strand_.dropped(); }
  // Cut in the inbox; what the playout buffer cut comes on top.
  uint64_t dropped_ms() const { return dropped_ms_.load(std::memory_order_relaxed); }
  // Jobs posted and not yet done.
  int pending() const { return pending_.load(std::memory_order_acquire); }

  static constexpr int kInboxMs = 480;

 private:
  struct Arrival {
    enum class Kind : uint8_t { kOpus, kPcm16, kLoss } kind = Kind::kOpus;
    int samples = 0;
    Time at;
    std::vector<uint8_t> bytes;
  };

  void Receive(Arrival arrival);
  void Decode();
  void Encode();
  bool Post(void (SoundPath::*job)());

  // Given to us.
  Lane& lane_;
  Clock& clock_;
  const uint32_t tenancy_;
  const SoundFormat format_;
  const std::function<void(EncodedFrame)> on_frame_;

  // State of the inbox, shared by the I/O thread and the codec thread.
  std::mutex mutex_;
  std::deque<Arrival> inbox_;
  int inbox_samples_ = 0;
  bool decode_posted_ = false;
  std::atomic<uint64_t> lost_{0}, broken_{0}, dropped_ms_{0};
  std::atomic<int> pending_{0};

  // The codec thread's.
  audio::OpusDecoder decoder_;
  audio::OpusEncoder encoder_;
  std::vector<float> pcm_;
  OutFrame frame_;

  audio::CodecStrand strand_;  // last: closed before what its jobs use goes
};

}  // namespace antiphon::daemon
