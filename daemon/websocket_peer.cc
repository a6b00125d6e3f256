#include "daemon/websocket_peer.h"

#include <libwebsockets.h>

namespace antiphon::daemon {
namespace {

constexpr std::chrono::seconds kCloseWithin{1};
constexpr size_t kMaxReasonBytes = 123;  // RFC 6455 5.5: control frames carry 125 bytes
constexpr int kUnansweredPings = 2;

}  // namespace

WebSocketPeer::WebSocketPeer(lws* wsi, ConnectionInfo info, const WebSocketRoute& route,
                             std::function<void()> kick, std::function<void()> finish_close_later)
    : wsi_(wsi),
      info_(std::move(info)),
      route_(route),
      kick_(std::move(kick)),
      finish_close_later_(std::move(finish_close_later)) {}

void WebSocketPeer::SendBinary(std::span<const uint8_t> message) {
  Send(true, message.data(), message.size());
}

void WebSocketPeer::SendText(std::string_view message) {
  Send(false, message.data(), message.size());
}

void WebSocketPeer::Send(bool binary, const void* data, size_t size) {
  if (closing_ || closed_) return;
  Message message{binary, std::string(LWS_PRE, '\0')};
  message.bytes.append(static_cast<const char*>(data), size);
  queued_bytes_ += size;
  queue_.push_back(std::move(message));
  WantWrite();
}

void WebSocketPeer::Close(uint16_t code, std::string_view reason) {
  if (closing_ || closed_) return;
  closing_ = true;
  close_code_ = code;
  close_reason_ = reason.substr(0, kMaxReasonBytes);
  cut_at_ = std::chrono::steady_clock::now() + kCloseWithin;
  WantWrite();
}

int WebSocketPeer::OnOpen() {
  open_ = true;
  handler_ = route_.make_handler(info_);
  if (handler_ == nullptr) return -1;
  handler_->OnOpen(*this);
  return 0;
}

int WebSocketPeer::OnReceive(std::span<const uint8_t> part) {
  silent_rounds_ = 0;
  if (closing_ || handler_ == nullptr) return 0;
  if (lws_is_first_fragment(wsi_) != 0) received_.clear();
  if (received_.size() + part.size() > route_.max_message_bytes) {
    closing_ = close_sent_ = true;
    cut_at_ = std::chrono::steady_clock::now() + kCloseWithin;
    unsigned char reason[] = "message too long";
    lws_close_reason(wsi_, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, reason, sizeof(reason) - 1);
    return -1;
  }
  received_.append(reinterpret_cast<const char*>(part.data()), part.size());
  if (lws_is_final_fragment(wsi_) == 0 || lws_remaining_packet_payload(wsi_) != 0) return 0;
  // Moved out, so that a handler that answers at once finds us ready for the next message.
  const std::string message = std::move(received_);
  received_.clear();
  if (lws_frame_is_binary(wsi_) != 0) {
    handler_->OnBinary({reinterpret_cast<const uint8_t*>(message.data()), message.size()});
  } else {
    handler_->OnText(message);
  }
  return 0;
}

int WebSocketPeer::OnWritable() {
  unsent_bytes_ = 0;
  if (ping_due_ && !close_sent_) {
    ping_due_ = false;
    unsigned char ping[LWS_PRE + 1] = {};
    if (lws_write(wsi_, ping + LWS_PRE, 0, LWS_WRITE_PING) < 0) return -1;
  }
  while (!queue_.empty()) {
    if (lws_partial_buffered(wsi_) != 0 || lws_send_pipe_choked(wsi_) != 0) {
      lws_callback_on_writable(wsi_);
      return 0;
    }
    Message message = std::move(queue_.front());
    queue_.pop_front();
    const size_t size = message.bytes.size() - LWS_PRE;
    queued_bytes_ -= size;
    auto* const bytes = reinterpret_cast<unsigned char*>(message.bytes.data()) + LWS_PRE;
    if (lws_write(wsi_, bytes, size, message.binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT) < 0) {
      return -1;
    }
    if (lws_partial_buffered(wsi_) != 0) {
      unsent_bytes_ = size;
      lws_callback_on_writable(wsi_);
      return 0;
    }
  }
  if (closing_ && !close_sent_) {
    close_sent_ = true;
    finish_close_later_();
  }
  return 0;
}

// Outside of libwebsockets' callbacks: a writable callback that asks to close loses the frame.
void WebSocketPeer::FinishClose() {
  if (closed_ || cut_ || !close_sent_) return;
  lws_close_reason(wsi_, static_cast<lws_close_status>(close_code_),
                   reinterpret_cast<unsigned char*>(close_reason_.data()), close_reason_.size());
  lws_set_timeout(wsi_, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);  // may destroy us
}

void WebSocketPeer::OnClosed() {
  if (closed_) return;
  closed_ = true;
  if (handler_ != nullptr) handler_->OnClose();
  handler_.reset();
}

void WebSocketPeer::KeepAlive() {
  if (!open_ || closed_) return;
  if (++silent_rounds_ > kUnansweredPings + 1) {
    Cut();
  } else if (silent_rounds_ > 1) {  // the first whole round without a sign of life is over
    ping_due_ = true;
    WantWrite();
  }
}

void WebSocketPeer::CheckDeadline(std::chrono::steady_clock::time_point now) {
  if (closing_ && !closed_ && now >= cut_at_) Cut();
}

void WebSocketPeer::WantWrite() {
  lws_callback_on_writable(wsi_);
  kick_();
}

void WebSocketPeer::Cut() {
  if (cut_) return;
  cut_ = true;
  lws_set_timeout(wsi_, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
  // Its timer counts only once libwebsockets has been served.
  lws_cancel_service(lws_get_context(wsi_));
  kick_();
}

}  // namespace antiphon::daemon
