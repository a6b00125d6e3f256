// Who is in: admission, the sessions, and their lanes.
//
// I/O thread only. A lane is given to a session when it is admitted, so whoever is admitted can
// run; it is free again one turn after the session closed.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "audio/codec_pool.h"
#include "audio/opus_codec.h"
#include "daemon/access_control.h"
#include "daemon/session.h"
#include "daemon/tick_loop.h"

namespace antiphon::daemon {

enum class Admission : uint8_t { kAdmitted, kBusy, kDraining, kAddress };
inline constexpr std::array kRefusals = {Admission::kBusy, Admission::kDraining,
                                         Admission::kAddress};
// "busy", "draining", "address": what metrics and clients are told.
const char* AdmissionName(Admission outcome);

// What became of the callers' sound, all sessions, ever.
struct SoundTotals {
  uint64_t lost = 0, broken = 0, refused_jobs = 0;  // as in SessionStats
  double dropped_ms = 0.0;
  void Add(const SessionStats& stats);
};

// What peers sent that was of no use, and what they tell of themselves; all sessions, ever.
struct PeerCounters {
  uint64_t ignored = 0;    // messages of a kind or type that we do not know
  uint64_t faulty = 0;     // messages that break the protocol
  uint64_t underruns = 0;  // gaps in the clients' playback
};

class SessionTable {
 public:
  // Everything given outlives the table. `codecs` does the sessions' codec work, `preparers` the
  // engine's Prepare, which may take long.
  struct Parts {
    boost::asio::io_context& io;
    engine::Engine& engine;
    Clock& clock;
    TickLoop& ticks;
    audio::CodecPool& codecs;
    audio::CodecPool& preparers;
    audio::OpusEncoderOptions encoder;
    std::chrono::seconds start_within{10};  // from admission to a start message
    int max_per_address = 0;                // conversations of one other machine; 0: no limit
    bool limit_loopback = false;            // count this machine as another
  };

  explicit SessionTable(const Parts& parts);
  // REQUIRES: the tick thread is stopped, or no session has joined.
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // A session for `events`, or null and why.
  std::shared_ptr<Session> Admit(SessionEvents& events, const Caller& caller, Admission* outcome);
  // From now on everybody is refused.
  void StopAdmitting() { draining_ = true; }
  bool draining() const { return draining_; }
  // Ends every session.
  void EndAll(SessionEvents::End end);

  // After the tick thread's wake.
  void OnWake();
  // Several times a second.
  void OnClock(Time now);

  size_t capacity() const { return parts_.ticks.lanes(); }
  size_t open_sessions() const { return sessions_.size(); }
  // Lanes that can be given away now.
  size_t free_lanes() const { return free_.size(); }
  uint64_t admitted() const { return admitted_; }
  uint64_t refused() const;
  uint64_t refused(Admission why) const { return refused_[static_cast<size_t>(why)]; }
  SoundTotals sound() const;
  // Codec jobs and preparations under way.
  int pending() const;

  // Counted by the protocols.
  PeerCounters& peers() { return peers_; }
  const PeerCounters& peers() const { return peers_; }

  // For Session.
  Parts& parts() { return parts_; }
  audio::CodecStrand& preparer() { return preparer_; }
  // Preparations under way; outlives us in what is still posted.
  const std::shared_ptr<int>& preparing() const { return preparing_; }
  // What a session that closes has counted.
  void Retire(const SessionStats& stats) { retired_.Add(stats); }
  // The session is closed. `prepared` is what its lane was joined with, null if it never was.
  void Release(Session& session, size_t lane, std::shared_ptr<engine::PreparedSession> prepared);

 private:
  Admission Judge(const Caller& caller) const;

  // A lane on its way back: its prompt lives until the engine has let go of it.
  struct Leaving {
    size_t lane;
    std::shared_ptr<engine::PreparedSession> prepared;
  };

  // Given to us.
  Parts parts_;
  // Owned by us.
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<Leaving> leaving_;
  // State.
  std::vector<size_t> free_;
  uint64_t admitted_ = 0;
  std::array<uint64_t, 1 + kRefusals.size()> refused_{};
  SoundTotals retired_;
  PeerCounters peers_;
  std::shared_ptr<int> preparing_ = std::make_shared<int>(0);
  bool draining_ = false;
  audio::CodecStrand preparer_;
};

}  // namespace antiphon::daemon
