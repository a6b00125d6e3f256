// Opus (RFC 6716) at 24 kHz mono, the rate of the models.
//
// Encoders and decoders belong to one thread at a time; handing one on needs the usual
// happens-before (a CodecStrand gives it). Constructors throw, nothing after them does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "audio/status.h"

namespace antiphon::audio {

inline constexpr int kOpusRateHz = 24000;
inline constexpr int kOpusPacketSamples = 480;      // 20 ms, what we send
inline constexpr int kOpusMaxPacketSamples = 2880;  // 120 ms, the longest legal packet
// RFC 6716 section 3.2.1: a frame has at most 1275 bytes, and a packet of one frame a byte more.
inline constexpr int kOpusMaxPacketBytes = 1276;

enum class OpusApplication : uint8_t {
  kVoip,   // speech first: intelligibility at low rates
  kAudio,  // fidelity first
};

struct OpusEncoderOptions {
  int bitrate_bps = 32000;  // 6000..256000
  int complexity = 5;       // 0..10
  OpusApplication application = OpusApplication::kVoip;
  bool dtx = false;  // silence is sent as packets of 1 or 2 bytes
};

class OpusEncoder {
 public:
  // Throws AudioError for options out of range.
  explicit OpusEncoder(const OpusEncoderOptions& options);
  ~OpusEncoder();
  OpusEncoder(OpusEncoder&&) noexcept;
  OpusEncoder& operator=(OpusEncoder&&) noexcept;

  // Encodes pcm [kOpusPacketSamples] in -1..1 (values beyond are clipped, NaN is silence) into
  // `packet`, which should hold kOpusMaxPacketBytes. Returns its bytes; 0 only where `packet` is
  // too small to hold anything.
  size_t Encode(const float* pcm, std::span<uint8_t> packet) noexcept;

  // The encoder's delay in samples at 48 kHz, what Ogg-Opus calls pre-skip.
  int lookahead_48k() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class OpusDecoder {
 public:
  OpusDecoder();
  ~OpusDecoder();
  OpusDecoder(OpusDecoder&&) noexcept;
  OpusDecoder& operator=(OpusDecoder&&) noexcept;

  // Appends the sound of one packet of any legal duration, 2.5 to 120 ms, to *pcm; stereo is mixed
  // down. A malformed packet gives kBadPacket, appends nothing and leaves the decoder usable.
  Status Decode(std::span<const uint8_t> packet, std::vector<float>* pcm) noexcept;

  // Appends exactly `samples` (0..kOpusMaxPacketSamples) that stand in for a lost packet or a gap
  // of discontinuous transmission: sound that goes on and fades.
  void Conceal(int samples, std::vector<float>* pcm) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Samples at 24 kHz that a packet holds, told from its first bytes; -1 where it is no legal packet.
int OpusPacketSamples(std::span<const uint8_t> packet) noexcept;

}  // namespace antiphon::audio
