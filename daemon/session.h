// One conversation, whatever protocol it is spoken over.
//
//   kOpen --Start--> kPreparing --engine has made the prompt--> kJoined --prompt is through-->
//   kRunning;  Close from anywhere --> kClosed.  A prompt that the engine refuses: back to kOpen.
//
// I/O thread only, except that preparation and codec work run elsewhere and post back here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "daemon/access_control.h"
#include "daemon/sound_path.h"
#include "daemon/tick_loop.h"
#include "daemon/utf8_pieces.h"
#include "engine/engine.h"

namespace antiphon::daemon {

class SessionTable;

// Who asks to be admitted.
struct Caller {
  std::string address;
  Priority priority = Priority::kNormal;
};

// The protocol's side of a session. Called on the I/O thread, never after Session::Close.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  // The options of Start do not fit the model: one sentence that names the field. Start may be
  // called again.
  virtual void OnRefused(const std::string& message) = 0;
  virtual void OnProgress(int done_frames, int total_frames) = 0;
  virtual void OnReady() = 0;
  // One frame, with its text ("" where none). True if it went to the transport.
  virtual bool OnFrame(const EncodedFrame& frame, std::string_view text) = 0;
  // Several times a second, for time limits.
  virtual void OnClock(Time now) = 0;
  // The daemon ends the session, and closes it when this returns.
  enum class End { kDraining, kInternal };
  virtual void OnEnd(End end) = 0;
};

struct SessionStats {
  uint64_t frames = 0, late = 0, degraded = 0, starved = 0;
  double buffer_ms = 0.0, oldest_ms = 0.0, dropped_ms = 0.0;
  uint64_t lost = 0, broken = 0;  // packets concealed; of these, those that would not decode
  uint64_t refused_jobs = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Made by SessionTable::Admit.
  Session(SessionTable& table, size_t lane, uint64_t id, SessionEvents& events,
          const Caller& caller);
  ~Session();

  // REQUIRES: kOpen.
  void Start(const engine::SessionOptions& options, SoundFormat format);
  // Sound before kRunning is dropped. False where the packet is not legal Opus.
  bool PushOpus(std::span<const uint8_t> packet);
  void PushPcm16(std::span<const uint8_t> bytes);
  void PushLoss();
  // Frees the lane. Nothing more comes to the events. May be called again.
  void Close();

  bool open() const { return state_ == State::kOpen; }
  bool running() const { return state_ == State::kRunning; }
  uint64_t id() const { return id_; }
  const Caller& caller() const { return caller_; }
  SessionStats stats() const;

  // For the table.
  void OnWake();
  void OnClock(Time now) { events_->OnClock(now); }
  void End(SessionEvents::End end);
  int pending() const;

 private:
  enum class State { kOpen, kPreparing, kJoined, kRunning, kClosed };

  void OnPrepared(std::shared_ptr<engine::PreparedSession> prepared, const std::string& fault);
  void OnEncoded(const EncodedFrame& frame);
  void BeginRunning();
  void LogEnd() const;

  // Given to us.
  SessionTable& table_;
  const size_t lane_;
  const uint64_t id_;
  const Caller caller_;
  SessionEvents* events_;
  // Owned by us.
  std::shared_ptr<engine::PreparedSession> prepared_;
  std::unique_ptr<SoundPath> sound_;
  // State.
  State state_ = State::kOpen;
  SoundFormat format_ = SoundFormat::kOpus;
  int shown_progress_ = -1;
  uint64_t encoded_frames_ = 0;
  Utf8Pieces text_;
};

}  // namespace antiphon::daemon
