#include "daemon/moshi_connection.h"

#include "daemon/voice_connection.h"

namespace antiphon::daemon {
namespace {

constexpr int kPreSkip = 3840;  // what Kyutai's server writes: 80 ms at 48 kHz
constexpr int kInputRateHz = 48000;
constexpr int kPacketSamples48k = 48 * kPacketMs;

}  // namespace

MoshiConnection::MoshiConnection(SessionTable& table, Clock& clock)
    : table_(table), clock_(clock) {}

MoshiConnection::~MoshiConnection() {
  if (session_ != nullptr) session_->Close();
}

void MoshiConnection::OnOpen(WebSocket& socket) {
  socket_ = &socket;
  Admission outcome = Admission::kAdmitted;
  session_ = table_.Admit(*this, {socket.info().remote_address, socket.info().priority}, &outcome);
  // 1013 makes these clients try again; 1000 would make them try at once.
  if (outcome == Admission::kDraining) return Refuse(1013, "draining: the server is stopping");
  if (outcome == Admission::kAddress)
    return Refuse(1013, "busy: your address has its places taken");
  if (outcome == Admission::kBusy) return Refuse(1013, "busy: all places are taken");
  request_ = ParseMoshiQuery(socket.info().query, table_.parts().engine.info());
  if (!request_.fault.empty()) return Refuse(1008, request_.fault);
  if (!request_.has_seed) request_.options.seed = RandomSeed();
  session_->Start(request_.options, SoundFormat::kOpus);
}

void MoshiConnection::OnClose() {
  socket_ = nullptr;
  if (const auto session = std::move(session_)) session->Close();
}

void MoshiConnection::Refuse(uint16_t code, std::string_view message) {
  socket_->SendBinary(MoshiMessage(MoshiKind::kError, message));
  Close(code, message.substr(0, 120));
}

void MoshiConnection::Close(uint16_t code, std::string_view reason) {
  if (const auto session = std::move(session_)) session->Close();
  if (socket_ != nullptr) socket_->Close(code, reason);
}

void MoshiConnection::OnBinary(std::span<const uint8_t> message) {
  if (session_ == nullptr) return;
  const std::span<const uint8_t> ogg = MoshiAudio(message);
  if (ogg.empty()) {
    ++table_.peers().ignored;
    return;
  }
  demuxer_.Push(ogg, [this](std::span<const uint8_t> packet) {
    if (!session_->PushOpus(packet)) ++table_.peers().faulty;
  });
}

void MoshiConnection::OnText(std::string_view) {}

void MoshiConnection::OnRefused(const std::string& message) { Refuse(1008, message); }

void MoshiConnection::OnProgress(int, int) {}

void MoshiConnection::OnReady() {
  const engine::EngineInfo& info = table_.parts().engine.info();
  socket_->SendBinary(MoshiHandshake());
  if (request_.metadata) socket_->SendBinary(MoshiMetadata(info, request_.options));
  audio::OpusHead head;
  head.pre_skip = kPreSkip;
  head.input_rate_hz = kInputRateHz;
  muxer_ =
      std::make_unique<audio::OggMuxer>(static_cast<uint32_t>(session_->id()), head, "Antiphon");
  socket_->SendBinary(MoshiMessage(MoshiKind::kAudio, muxer_->Headers()));
}

bool MoshiConnection::OnFrame(const EncodedFrame& frame, std::string_view text) {
  size_t bytes = 0;
  for (const auto& packet : frame.packets) bytes += packet.size() + 29;  // with its page header
  const SendBudget::Verdict verdict = budget_.Ask(socket_->queued_bytes(), bytes, clock_.Now());
  if (verdict == SendBudget::Verdict::kTooSlow) {
    Refuse(1008, "too_slow: the client does not read what it is sent");
    return false;
  }
  if (!text.empty()) socket_->SendBinary(MoshiMessage(MoshiKind::kText, text));
  for (const auto& packet : frame.packets) {
    // A dropped frame still counts in the granule position: time goes on.
    const std::vector<uint8_t> page = muxer_->Page(packet, kPacketSamples48k);
    if (verdict == SendBudget::Verdict::kSend) {
      socket_->SendBinary(MoshiMessage(MoshiKind::kAudio, page));
    }
  }
  return verdict == SendBudget::Verdict::kSend;
}

void MoshiConnection::OnClock(Time) {}

void MoshiConnection::OnEnd(End end) {
  const bool draining = end == End::kDraining;
  Refuse(draining ? 1001 : 1011,
         draining ? "draining: the server is stopping" : "internal: the engine failed");
}

}  // namespace antiphon::daemon
