#include "daemon/session_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace antiphon::daemon {

const char* AdmissionName(Admission outcome) {
  constexpr const char* kNames[] = {"admitted", "busy", "draining", "address"};
  return kNames[static_cast<size_t>(outcome)];
}

void SoundTotals::Add(const SessionStats& stats) {
  lost += stats.lost;
  broken += stats.broken;
  refused_jobs += stats.refused_jobs;
  dropped_ms += stats.dropped_ms;
}

SessionTable::SessionTable(const Parts& parts) : parts_(parts), preparer_(parts.preparers) {
  for (size_t i = parts_.ticks.lanes(); i > 0; --i) free_.push_back(i - 1);
}

SessionTable::~SessionTable() {
  EndAll(SessionEvents::End::kInternal);
  preparer_.Close();
}

Admission SessionTable::Judge(const Caller& caller) const {
  if (draining_) return Admission::kDraining;
  const bool limited = parts_.max_per_address > 0 && !caller.address.empty() &&
                       (parts_.limit_loopback || !IsLoopback(caller.address));
  if (limited && std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& session) {
                   return session->caller().address == caller.address;
                 }) >= parts_.max_per_address) {
    return Admission::kAddress;
  }
  return free_.empty() ? Admission::kBusy : Admission::kAdmitted;
}

std::shared_ptr<Session> SessionTable::Admit(SessionEvents& events, const Caller& caller,
                                             Admission* outcome) {
  *outcome = Judge(caller);
  if (*outcome != Admission::kAdmitted) {
    ++refused_[static_cast<size_t>(*outcome)];
    return nullptr;
  }
  const size_t lane = free_.back();
  free_.pop_back();
  sessions_.push_back(std::make_shared<Session>(*this, lane, ++admitted_, events, caller));
  return sessions_.back();
}

void SessionTable::Release(Session& session, size_t lane,
                           std::shared_ptr<engine::PreparedSession> prepared) {
  if (prepared == nullptr) {
    free_.push_back(lane);
  } else {
    parts_.ticks.Leave(lane);
    leaving_.push_back({lane, std::move(prepared)});
  }
  std::erase_if(sessions_, [&](const auto& entry) { return entry.get() == &session; });
}

void SessionTable::EndAll(SessionEvents::End end) {
  const auto sessions = sessions_;  // ending takes them out
  for (const auto& session : sessions) session->End(end);
}

void SessionTable::OnWake() {
  std::erase_if(leaving_, [this](const Leaving& leaving) {
    const Lane& lane = parts_.ticks.lane(leaving.lane);
    if (lane.phase.load(std::memory_order_acquire) != LanePhase::kReleased) return false;
    parts_.ticks.Recycle(leaving.lane);
    free_.push_back(leaving.lane);
    return true;
  });
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->OnWake();
}

void SessionTable::OnClock(Time now) {
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->OnClock(now);
}

uint64_t SessionTable::refused() const {
  return std::accumulate(refused_.begin(), refused_.end(), uint64_t{0});
}

SoundTotals SessionTable::sound() const {
  SoundTotals sound = retired_;
  for (const auto& session : sessions_) sound.Add(session->stats());
  return sound;
}

int SessionTable::pending() const {
  int pending = *preparing_;
  for (const auto& session : sessions_) pending += session->pending();
  return pending;
}

}  // namespace antiphon::daemon
