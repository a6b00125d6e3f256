#include "audio/opus_codec.h"

#include <opus.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace antiphon::audio {
namespace {

// The shortest sound libopus makes, 2.5 ms; what it conceals is a multiple of it.
constexpr int kQuantum = 60;

void Require(const char* option, int value, int low, int high) {
  if (value >= low && value <= high) return;
  throw AudioError(std::string("Opus ") + option + ": expected " + std::to_string(low) + " to " +
                   std::to_string(high) + ", found " + std::to_string(value));
}

struct Destroy {
  void operator()(::OpusEncoder* encoder) const { opus_encoder_destroy(encoder); }
  void operator()(::OpusDecoder* decoder) const { opus_decoder_destroy(decoder); }
};

}  // namespace

struct OpusEncoder::State {
  std::unique_ptr<::OpusEncoder, Destroy> encoder;
  float clean[kOpusPacketSamples];
  opus_int32 lookahead = 0;
};

OpusEncoder::OpusEncoder(const OpusEncoderOptions& options) : state_(std::make_unique<State>()) {
  Require("bitrate", options.bitrate_bps, 6000, 256000);
  Require("complexity", options.complexity, 0, 10);
  const int application = options.application == OpusApplication::kVoip ? OPUS_APPLICATION_VOIP
                                                                        : OPUS_APPLICATION_AUDIO;
  int error = OPUS_OK;
  state_->encoder.reset(opus_encoder_create(kOpusRateHz, 1, application, &error));
  if (error != OPUS_OK) throw AudioError(std::string("Opus encoder: ") + opus_strerror(error));
  ::OpusEncoder* encoder = state_->encoder.get();
  opus_encoder_ctl(encoder, OPUS_SET_BITRATE(options.bitrate_bps));
  opus_encoder_ctl(encoder, OPUS_SET_COMPLEXITY(options.complexity));
  opus_encoder_ctl(encoder, OPUS_SET_DTX(options.dtx ? 1 : 0));
  opus_encoder_ctl(encoder, OPUS_GET_LOOKAHEAD(&state_->lookahead));
}

OpusEncoder::~OpusEncoder() = default;
OpusEncoder::OpusEncoder(OpusEncoder&&) noexcept = default;
OpusEncoder& OpusEncoder::operator=(OpusEncoder&&) noexcept = default;

size_t OpusEncoder::Encode(const float* pcm, std::span<uint8_t> packet) noexcept {
  if (packet.empty()) return 0;  // libopus wants an address even for no room
  // A NaN would stay in the encoder's filters for ever.
  std::transform(pcm, pcm + kOpusPacketSamples, state_->clean, [](float sample) {
    return std::isnan(sample) ? 0.0F : std::clamp(sample, -1.0F, 1.0F);
  });
  const auto room = static_cast<opus_int32>(std::min<size_t>(packet.size(), kOpusMaxPacketBytes));
  const opus_int32 bytes = opus_encode_float(state_->encoder.get(), state_->clean,
                                             kOpusPacketSamples, packet.data(), room);
  return static_cast<size_t>(std::max(bytes, 0));
}

int OpusEncoder::lookahead_48k() const noexcept {
  return static_cast<int>(state_->lookahead) * (48000 / kOpusRateHz);
}

struct OpusDecoder::State {
  std::unique_ptr<::OpusDecoder, Destroy> decoder;
  float pcm[kOpusMaxPacketSamples];
};

OpusDecoder::OpusDecoder() : state_(std::make_unique<State>()) {
  int error = OPUS_OK;
  // One channel: libopus mixes stereo packets down itself.
  state_->decoder.reset(opus_decoder_create(kOpusRateHz, 1, &error));
  if (error != OPUS_OK) throw AudioError(std::string("Opus decoder: ") + opus_strerror(error));
}

OpusDecoder::~OpusDecoder() = default;
OpusDecoder::OpusDecoder(OpusDecoder&&) noexcept = default;
OpusDecoder& OpusDecoder::operator=(OpusDecoder&&) noexcept = default;

Status OpusDecoder::Decode(std::span<const uint8_t> packet, std::vector<float>* pcm) noexcept {
  if (OpusPacketSamples(packet) <= 0) return Status::kBadPacket;
  const int samples = opus_decode_float(state_->decoder.get(), packet.data(),
                                        static_cast<opus_int32>(packet.size()), state_->pcm,
                                        kOpusMaxPacketSamples, 0);
  if (samples < 0) return Status::kBadPacket;
  pcm->insert(pcm->end(), state_->pcm, state_->pcm + samples);
  return Status::kOk;
}

void OpusDecoder::Conceal(int samples, std::vector<float>* pcm) noexcept {
  assert(samples >= 0 && samples <= kOpusMaxPacketSamples);
  samples = std::clamp(samples, 0, kOpusMaxPacketSamples);
  if (samples == 0) return;
  const int whole = (samples + kQuantum - 1) / kQuantum * kQuantum;
  const int made = opus_decode_float(state_->decoder.get(), nullptr, 0, state_->pcm, whole, 0);
  std::fill(state_->pcm + std::max(made, 0), state_->pcm + whole, 0.0F);
  pcm->insert(pcm->end(), state_->pcm, state_->pcm + samples);
}

int OpusPacketSamples(std::span<const uint8_t> packet) noexcept {
  if (packet.empty() || packet.size() > size_t{1} << 20) return -1;
  const auto bytes = static_cast<opus_int32>(packet.size());
  // The whole frame table is checked, not only the duration that the first byte promises.
  opus_int16 sizes[48];
  if (opus_packet_parse(packet.data(), bytes, nullptr, nullptr, sizes, nullptr) <= 0) return -1;
  const int samples = opus_packet_get_nb_samples(packet.data(), bytes, kOpusRateHz);
  return samples > 0 && samples <= kOpusMaxPacketSamples ? samples : -1;
}

}  // namespace antiphon::audio
