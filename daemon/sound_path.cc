#include "daemon/sound_path.h"

#include <algorithm>
#include <utility>

#include "audio/pcm.h"

namespace antiphon::daemon {
namespace {

constexpr int kSamplesPerMs = audio::kOpusRateHz / 1000;

std::vector<uint8_t> EncodePcm16(const float* pcm) {
  std::vector<uint8_t> bytes(size_t{audio::kOpusPacketSamples} * 2);
  for (size_t i = 0; i < size_t{audio::kOpusPacketSamples}; ++i) {
    const auto value = static_cast<uint16_t>(audio::ToPcm16(pcm[i]));
    bytes[2 * i] = static_cast<uint8_t>(value & 0xFF);
    bytes[2 * i + 1] = static_cast<uint8_t>(value >> 8);
  }
  return bytes;
}

void DecodePcm16(std::span<const uint8_t> bytes, std::vector<float>* pcm) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto value = static_cast<int16_t>(bytes[i] | (bytes[i + 1] << 8));
    pcm->push_back(audio::FromPcm16(value));
  }
}

}  // namespace

SoundPath::SoundPath(audio::CodecPool& pool, Lane& lane, Clock& clock,
                     const audio::OpusEncoderOptions& encoder, SoundFormat format,
                     std::function<void(EncodedFrame)> on_frame)
    : lane_(lane),
      clock_(clock),
      tenancy_(lane.tenancy),
      format_(format),
      on_frame_(std::move(on_frame)),
      encoder_(encoder),
      strand_(pool) {}

SoundPath::~SoundPath() { strand_.Close(); }

bool SoundPath::PushOpus(std::span<const uint8_t> packet) {
  const int samples = audio::OpusPacketSamples(packet);
  if (samples <= 0) return false;
  Receive({Arrival::Kind::kOpus, samples, clock_.Now(), {packet.begin(), packet.end()}});
  return true;
}

void SoundPath::PushPcm16(std::span<const uint8_t> bytes) {
  Receive({Arrival::Kind::kPcm16,
           static_cast<int>(bytes.size() / 2),
           clock_.Now(),
           {bytes.begin(), bytes.end()}});
}

void SoundPath::PushLoss() {
  lost_.fetch_add(1, std::memory_order_relaxed);
  Receive({Arrival::Kind::kLoss, audio::kOpusPacketSamples, clock_.Now(), {}});
}

void SoundPath::EncodeDue() { Post(&SoundPath::Encode); }

bool SoundPath::Post(void (SoundPath::*job)()) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  const bool posted = strand_.Post([this, job] {
    (this->*job)();
    pending_.fetch_sub(1, std::memory_order_release);
  });
  // Dropped: the inbox and the ring keep what they have for the next job.
  if (!posted) pending_.fetch_sub(1, std::memory_order_relaxed);
  return posted;
}

void SoundPath::Receive(Arrival arrival) {
  bool post = false;
  {
    const std::lock_guard lock(mutex_);
    inbox_samples_ += arrival.samples;
    inbox_.push_back(std::move(arrival));
    while (inbox_samples_ > kInboxMs * kSamplesPerMs && inbox_.size() > 1) {
      const int samples = inbox_.front().samples;
      dropped_ms_.fetch_add(static_cast<uint64_t>(samples / kSamplesPerMs),
                            std::memory_order_relaxed);
      inbox_samples_ -= samples;
      inbox_.pop_front();
    }
    post = !std::exchange(decode_posted_, true);
  }
  if (post && !Post(&SoundPath::Decode)) {
    const std::lock_guard lock(mutex_);
    decode_posted_ = false;
  }
}

void SoundPath::Decode() {
  std::deque<Arrival> arrivals;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(inbox_);
    inbox_samples_ = 0;
    decode_posted_ = false;
  }
  for (const Arrival& arrival : arrivals) {
    pcm_.clear();
    switch (arrival.kind) {
      case Arrival::Kind::kOpus:
        // A packet whose inside is broken is concealed like one that never came.
        if (decoder_.Decode(arrival.bytes, &pcm_) != audio::Status::kOk) {
          lost_.fetch_add(1, std::memory_order_relaxed);
          broken_.fetch_add(1, std::memory_order_relaxed);
          decoder_.Conceal(arrival.samples, &pcm_);
        }
        break;
      case Arrival::Kind::kPcm16:
        DecodePcm16(arrival.bytes, &pcm_);
        break;
      case Arrival::Kind::kLoss:
        decoder_.Conceal(arrival.samples, &pcm_);
        break;
    }
    lane_.in.Push(pcm_, arrival.at);
  }
}

void SoundPath::Encode() {
  while (lane_.out.pop(frame_)) {
    if (frame_.tenancy != tenancy_) continue;
    EncodedFrame encoded;
    encoded.number = frame_.number;
    encoded.deadline = frame_.deadline;
    encoded.text_token = frame_.text_token;
    for (size_t i = 0; i < encoded.packets.size(); ++i) {
      const float* pcm = frame_.pcm.data() + i * size_t{audio::kOpusPacketSamples};
      std::vector<uint8_t>& packet = encoded.packets[i];
      if (format_ == SoundFormat::kPcm16) {
        packet = EncodePcm16(pcm);
      } else {
        std::array<uint8_t, audio::kOpusMaxPacketBytes> buffer;
        const size_t bytes = encoder_.Encode(pcm, buffer);
        packet.assign(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
      }
    }
    on_frame_(std::move(encoded));
  }
}

}  // namespace antiphon::daemon
