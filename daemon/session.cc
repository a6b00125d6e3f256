#include "daemon/session.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <cassert>
#include <utility>

#include "daemon/session_table.h"
#include "engine/error.h"

namespace antiphon::daemon {

Session::Session(SessionTable& table, size_t lane, uint64_t id, SessionEvents& events,
                 const Caller& caller)
    : table_(table), lane_(lane), id_(id), caller_(caller), events_(&events) {}

Session::~Session() = default;

void Session::Start(const engine::SessionOptions& options, SoundFormat format) {
  assert(state_ == State::kOpen);
  state_ = State::kPreparing;
  format_ = format;
  SessionTable::Parts& parts = table_.parts();
  // The job knows the session only weakly: closing does not wait for a long preparation.
  const bool posted = table_.preparer().Post(
      [&parts, preparing = table_.preparing(), options, weak = weak_from_this()] {
        std::shared_ptr<engine::PreparedSession> prepared;
        std::string fault;
        try {
          prepared = parts.engine.Prepare(options);
        } catch (const std::exception& error) {
          fault = error.what();
        }
        boost::asio::post(parts.io, [preparing, weak, prepared = std::move(prepared),
                                     fault = std::move(fault)]() mutable {
          --*preparing;
          if (const auto session = weak.lock()) session->OnPrepared(std::move(prepared), fault);
        });
      });
  if (posted) {
    ++*table_.preparing();
  } else {
    End(SessionEvents::End::kInternal);
  }
}

void Session::OnPrepared(std::shared_ptr<engine::PreparedSession> prepared,
                         const std::string& fault) {
  if (state_ != State::kPreparing) return;
  if (prepared == nullptr) {
    state_ = State::kOpen;
    events_->OnRefused(fault);
    return;
  }
  prepared_ = std::move(prepared);
  state_ = State::kJoined;
  table_.parts().ticks.Join(lane_, *prepared_);
}

void Session::OnWake() {
  // Events may close the session, which takes it out of the table.
  const auto self = shared_from_this();
  if (state_ != State::kJoined && state_ != State::kRunning) return;
  Lane& lane = table_.parts().ticks.lane(lane_);
  const LanePhase phase = lane.phase.load(std::memory_order_acquire);
  if (phase == LanePhase::kRefused) {
    End(SessionEvents::End::kInternal);
    return;
  }
  const int done = lane.prefill_done_frames.load(std::memory_order_relaxed);
  const int total = prepared_->prefill_frames();
  if (state_ == State::kJoined && total > 0 && done != shown_progress_) {
    shown_progress_ = done;
    events_->OnProgress(done, total);
  }
  if (state_ == State::kJoined && phase == LanePhase::kRunning) BeginRunning();
  if (state_ != State::kRunning) return;
  const uint64_t frames = lane.counters.frames.load(std::memory_order_acquire);
  if (frames == encoded_frames_) return;
  encoded_frames_ = frames;
  sound_->EncodeDue();
}

void Session::BeginRunning() {
  SessionTable::Parts& parts = table_.parts();
  sound_ = std::make_unique<SoundPath>(
      parts.codecs, parts.ticks.lane(lane_), parts.clock, parts.encoder, format_,
      [&io = parts.io, weak = weak_from_this()](EncodedFrame frame) {
        boost::asio::post(io, [weak, frame = std::move(frame)] {
          if (const auto session = weak.lock()) session->OnEncoded(frame);
        });
      });
  state_ = State::kRunning;
  spdlog::info("session {} begins", id_);
  events_->OnReady();
}

void Session::OnEncoded(const EncodedFrame& frame) {
  if (state_ != State::kRunning) return;
  SessionTable::Parts& parts = table_.parts();
  const std::string text = text_.Add(parts.engine.TextPiece(frame.text_token));
  const bool sent = events_->OnFrame(frame, text);
  if (state_ != State::kRunning) return;
  if (!sent || parts.clock.Now() > frame.deadline) {
    parts.ticks.lane(lane_).counters.late.fetch_add(1, std::memory_order_relaxed);
  }
}

bool Session::PushOpus(std::span<const uint8_t> packet) {
  return state_ == State::kRunning ? sound_->PushOpus(packet)
                                   : audio::OpusPacketSamples(packet) > 0;
}

void Session::PushPcm16(std::span<const uint8_t> bytes) {
  if (state_ == State::kRunning) sound_->PushPcm16(bytes);
}

void Session::PushLoss() {
  if (state_ == State::kRunning) sound_->PushLoss();
}

void Session::End(SessionEvents::End end) {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  events_->OnEnd(end);
  Close();
}

void Session::Close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  if (state_ == State::kRunning) {
    LogEnd();
    table_.Retire(stats());
  }
  state_ = State::kClosed;
  sound_.reset();
  table_.Release(*this, lane_, std::move(prepared_));
}

// Counters only: what was said is nobody's business.
void Session::LogEnd() const {
  const SessionStats end = stats();
  spdlog::info(
      "session {} ends: frames {}, late {}, degraded {}, starved {}, dropped {:.0f} ms, lost {}",
      id_, end.frames, end.late, end.degraded, end.starved, end.dropped_ms, end.lost);
}

SessionStats Session::stats() const {
  SessionStats stats;
  if (state_ != State::kRunning) return stats;
  SessionTable::Parts& parts = table_.parts();
  const Lane& lane = parts.ticks.lane(lane_);
  stats.frames = lane.counters.frames.load(std::memory_order_relaxed);
  stats.late = lane.counters.late.load(std::memory_order_relaxed);
  stats.degraded = lane.counters.degraded.load(std::memory_order_relaxed);
  stats.starved = lane.counters.starved.load(std::memory_order_relaxed);
  const audio::PlayoutStats playout = lane.in.stats(parts.clock.Now());
  stats.buffer_ms = playout.buffered_ms;
  stats.oldest_ms = playout.oldest_ms;
  stats.dropped_ms = static_cast<double>(playout.dropped_samples) * 1000.0 / audio::kOpusRateHz +
                     static_cast<double>(sound_->dropped_ms());
  stats.lost = sound_->lost_packets();
  stats.broken = sound_->broken_packets();
  stats.refused_jobs = sound_->refused_jobs();
  return stats;
}

int Session::pending() const { return sound_ == nullptr ? 0 : sound_->pending(); }

}  // namespace antiphon::daemon
