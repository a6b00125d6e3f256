// One client on /api/chat: Ogg-Opus in and out, the session begins with the request itself.
// I/O thread only.
#pragma once

#include <memory>

#include "audio/ogg_stream.h"
#include "daemon/moshi_protocol.h"
#include "daemon/send_budget.h"
#include "daemon/session_table.h"
#include "daemon/web_server.h"

namespace antiphon::daemon {

class MoshiConnection final : public WebSocketHandler, public SessionEvents {
 public:
  MoshiConnection(SessionTable& table, Clock& clock);
  ~MoshiConnection() override;

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

 private:
  void Refuse(uint16_t code, std::string_view message);
  void Close(uint16_t code, std::string_view reason);

  // Given to us.
  SessionTable& table_;
  Clock& clock_;
  WebSocket* socket_ = nullptr;  // until OnClose
  // State.
  std::shared_ptr<Session> session_;  // null: refused or over
  MoshiRequest request_;
  audio::OggDemuxer demuxer_;  // sees everything from the first byte, so headers are never missed
  std::unique_ptr<audio::OggMuxer> muxer_;  // from the handshake on
  SendBudget budget_;
};

}  // namespace antiphon::daemon
