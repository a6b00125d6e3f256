// One client on /v1/voice: its messages to a session, the session's events to messages.
// I/O thread only.
#pragma once

#include <memory>

#include "daemon/send_budget.h"
#include "daemon/session_table.h"
#include "daemon/voice_protocol.h"
#include "daemon/web_server.h"

namespace antiphon::daemon {

inline constexpr int kRetryAfterMs = 2000;
inline constexpr std::string_view kServerName = "antiphond 0.1.0";

// A seed for a caller who brings none, so that no two conversations are alike.
uint64_t RandomSeed();

class VoiceConnection final : public WebSocketHandler, public SessionEvents {
 public:
  VoiceConnection(SessionTable& table, Clock& clock);
  ~VoiceConnection() override;

  void OnOpen(WebSocket& socket) override;
  void OnBinary(std::span<const uint8_t> message) override;
  void OnText(std::string_view message) override;
  void OnClose() override;

  void OnRefused(const std::string& message) override;
  void OnProgress(int done_frames, int total_frames) override;
  void OnReady() override;
  bool OnFrame(const EncodedFrame& frame, std::string_view text) override;
  void OnClock(Time now) override;
  void OnEnd(End end) override;

  static constexpr int kMaxFaults = 20;

 private:
  void OnStart(const StartMessage& start);
  void OnClientStats(const ClientStatsMessage& stats);
  void SendStats();
  void Fault(std::string_view code, std::string_view message);
  // Ends the session and closes the socket.
  void Close(uint16_t code, std::string_view reason);

  // Given to us.
  SessionTable& table_;
  Clock& clock_;
  WebSocket* socket_ = nullptr;  // until OnClose
  // State.
  std::shared_ptr<Session> session_;  // null: refused or over
  SoundFormat format_ = SoundFormat::kOpus;
  SendBudget budget_;
  Time opened_, last_stats_;
  bool started_ = false;  // a start message was accepted for preparation
  int faults_ = 0;
  uint64_t underruns_ = 0;  // as the client last told
  std::vector<uint8_t> message_;
};

}  // namespace antiphon::daemon
