// One connection of the web server: an HTTP exchange or, after the upgrade, a WebSocket.
//
// I/O thread only; owned by the WebServer, from accept until libwebsockets frees the connection.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include "daemon/web_server.h"

struct lws;

namespace antiphon::daemon {

class WebSocketPeer final : public WebSocket {
 public:
  // `kick` makes the event loop notice a changed watcher; `finish_close_later` calls FinishClose
  // from outside of libwebsockets' callbacks.
  WebSocketPeer(lws* wsi, ConnectionInfo info, const WebSocketRoute& route,
                std::function<void()> kick, std::function<void()> finish_close_later);
  void FinishClose();

  const ConnectionInfo& info() const override { return info_; }
  void SendBinary(std::span<const uint8_t> message) override;
  void SendText(std::string_view message) override;
  size_t queued_bytes() const override { return queued_bytes_ + unsent_bytes_; }
  void Close(uint16_t code, std::string_view reason) override;

  // What libwebsockets tells us. A non-zero result ends the connection.
  int OnOpen();
  int OnReceive(std::span<const uint8_t> part);
  int OnWritable();
  void OnPong() { silent_rounds_ = 0; }
  void OnClosed();

  // One round of the keep-alive: pings a silent peer, cuts one that left 2 pings unanswered.
  void KeepAlive();
  // Cuts a peer whose second to answer a Close is over.
  void CheckDeadline(std::chrono::steady_clock::time_point now);

 private:
  void Send(bool binary, const void* data, size_t size);
  void WantWrite();
  void Cut();

  // Given to us.
  lws* wsi_;
  const ConnectionInfo info_;
  const WebSocketRoute& route_;
  const std::function<void()> kick_, finish_close_later_;
  // State.
  std::unique_ptr<WebSocketHandler> handler_;
  struct Message {
    bool binary;
    std::string bytes;  // LWS_PRE bytes of room, then the message
  };
  std::deque<Message> queue_;
  size_t queued_bytes_ = 0;
  size_t unsent_bytes_ = 0;  // of the last message written: libwebsockets holds its rest
  std::string received_;
  bool ping_due_ = false;
  int silent_rounds_ = 0;
  bool open_ = false, closing_ = false, closed_ = false, cut_ = false;
  bool close_sent_ = false;
  uint16_t close_code_ = 0;
  std::string close_reason_;
  std::chrono::steady_clock::time_point cut_at_;
};

}  // namespace antiphon::daemon
