#include "daemon/voice_connection.h"

#include <random>
#include <string>

namespace antiphon::daemon {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) & ((uint64_t{1} << 53) - 1);
}

VoiceConnection::VoiceConnection(SessionTable& table, Clock& clock)
    : table_(table), clock_(clock) {}

VoiceConnection::~VoiceConnection() {
  if (session_ != nullptr) session_->Close();
}

void VoiceConnection::OnOpen(WebSocket& socket) {
  socket_ = &socket;
  opened_ = clock_.Now();
  if (!socket.info().refusal.empty()) {
    socket_->SendText(ErrorText("unauthorized", socket.info().refusal));
    return Close(1008, "unauthorized");
  }
  Admission outcome = Admission::kAdmitted;
  session_ = table_.Admit(*this, {socket.info().remote_address, socket.info().priority}, &outcome);
  if (outcome == Admission::kDraining) {
    socket_->SendText(ErrorText("draining", "the server is stopping", kRetryAfterMs));
    Close(1013, "draining");
  } else if (outcome != Admission::kAdmitted) {
    const bool address = outcome == Admission::kAddress;
    socket_->SendText(
        ErrorText("busy", address ? "your address has its places taken" : "all places are taken",
                  kRetryAfterMs));
    Close(1013, "busy");
  } else {
    socket_->SendText(HelloText(table_.parts().engine.info(), kServerName, session_->id()));
  }
}

void VoiceConnection::OnClose() {
  socket_ = nullptr;
  if (const auto session = std::move(session_)) session->Close();
}

void VoiceConnection::Close(uint16_t code, std::string_view reason) {
  if (const auto session = std::move(session_)) session->Close();
  if (socket_ != nullptr) socket_->Close(code, reason);
}

void VoiceConnection::Fault(std::string_view code, std::string_view message) {
  socket_->SendText(ErrorText(code, message));
  ++table_.peers().faulty;
  if (++faults_ >= kMaxFaults) Close(1008, "too many faulty messages");
}

void VoiceConnection::OnText(std::string_view message) {
  if (session_ == nullptr) return;
  const VoiceMessage parsed = ParseVoiceText(message, table_.parts().engine.info().defaults);
  std::visit(Overloaded{[&](const MessageFault& fault) { Fault(fault.code, fault.message); },
                        [&](const StartMessage& start) { OnStart(start); },
                        [&](const ClientStatsMessage& stats) { OnClientStats(stats); },
                        [&](const UnknownMessage&) { ++table_.peers().ignored; },
                        [&](const ByeMessage&) {
                          if (session_->running()) SendStats();
                          socket_->SendText(ByeText("client"));
                          Close(1000, "bye");
                        }},
             parsed);
}

void VoiceConnection::OnStart(const StartMessage& start) {
  if (!session_->open()) {
    Fault("bad_message", "start: the session has been started already");
    return;
  }
  engine::SessionOptions options = start.options;
  if (!start.has_seed) options.seed = RandomSeed();
  format_ = start.format;
  started_ = true;
  session_->Start(options, start.format);
}

void VoiceConnection::OnClientStats(const ClientStatsMessage& stats) {
  if (stats.underruns > underruns_) table_.peers().underruns += stats.underruns - underruns_;
  underruns_ = stats.underruns;
}

void VoiceConnection::OnBinary(std::span<const uint8_t> message) {
  if (session_ == nullptr) return;
  const VoiceSound sound = ParseVoiceBinary(message);
  switch (sound.kind) {
    case VoiceSound::Kind::kOpus:
      if (!session_->PushOpus(sound.payload)) {
        Fault("bad_message", "opus: expected one legal Opus packet");
      }
      break;
    case VoiceSound::Kind::kPcm16:
      session_->PushPcm16(sound.payload);
      break;
    case VoiceSound::Kind::kLoss:
      session_->PushLoss();
      break;
    case VoiceSound::Kind::kUnknown:
      ++table_.peers().ignored;
      break;
    case VoiceSound::Kind::kFault:
      Fault("bad_message", sound.fault);
      break;
  }
}

void VoiceConnection::OnRefused(const std::string& message) {
  started_ = false;
  opened_ = clock_.Now();
  Fault("bad_option", message);
}

void VoiceConnection::OnProgress(int done_frames, int total_frames) {
  socket_->SendText(ProgressText(done_frames, total_frames));
}

void VoiceConnection::OnReady() {
  last_stats_ = clock_.Now();
  socket_->SendText(ReadyText());
}

bool VoiceConnection::OnFrame(const EncodedFrame& frame, std::string_view text) {
  size_t bytes = 0;
  for (const auto& packet : frame.packets) bytes += packet.size() + 1;
  const Time now = clock_.Now();
  const SendBudget::Verdict verdict = budget_.Ask(socket_->queued_bytes(), bytes, now);
  if (verdict == SendBudget::Verdict::kTooSlow) {
    socket_->SendText(ErrorText("too_slow", "the client does not read what it is sent"));
    Close(1008, "too slow");
    return false;
  }
  if (!text.empty()) socket_->SendText(PieceText(text, frame.number * kFrameMs));
  if (verdict == SendBudget::Verdict::kSend) {
    const VoiceSoundKind kind =
        format_ == SoundFormat::kOpus ? VoiceSoundKind::kOpus : VoiceSoundKind::kPcm16;
    for (const auto& packet : frame.packets) {
      message_.assign(1, static_cast<uint8_t>(kind));
      message_.insert(message_.end(), packet.begin(), packet.end());
      socket_->SendBinary(message_);
    }
  }
  if (now - last_stats_ >= std::chrono::seconds(1)) {
    last_stats_ += std::chrono::seconds(1);
    SendStats();
  }
  return verdict == SendBudget::Verdict::kSend;
}

void VoiceConnection::SendStats() {
  socket_->SendText(StatsText(session_->stats(), socket_->queued_bytes()));
}

void VoiceConnection::OnClock(Time now) {
  const std::chrono::seconds limit = table_.parts().start_within;
  if (!started_ && now - opened_ >= limit) {
    Close(1008, "no start within " + std::to_string(limit.count()) + " s");
  }
}

void VoiceConnection::OnEnd(End end) {
  const bool draining = end == End::kDraining;
  if (!draining) socket_->SendText(ErrorText("internal", "the engine failed"));
  socket_->SendText(ByeText(draining ? "draining" : "internal"));
  Close(draining ? 1001 : 1011, draining ? "the server is stopping" : "the engine failed");
}

}  // namespace antiphon::daemon
