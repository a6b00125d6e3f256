// Everything between the sockets and the engine, as main.cc sees it.
//
// I/O thread only. Destroy the WebServer that has the routes first: its handlers live on us.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "audio/opus_codec.h"
#include "daemon/clock.h"
#include "daemon/tick_loop.h"
#include "daemon/web_server.h"
#include "engine/engine.h"

namespace antiphon::daemon {

struct VoiceServiceOptions {
  int max_sessions = 0;                         // 0: the engine's slots; never more than those
  int codec_threads = 0;                        // 0: one per core, at most 8
  int realtime_priority = 20;                   // as in TickOptions
  std::chrono::milliseconds prefill_guard{10};  // as TickOptions::guard
  std::chrono::milliseconds drain_grace{0};     // how long Drain lets conversations go on
  std::chrono::seconds start_within{10};        // as SessionTable::Parts::start_within
  int max_per_address = 0;                      // as SessionTable::Parts::max_per_address
  bool limit_loopback = false;                  // as SessionTable::Parts::limit_loopback
  std::shared_ptr<const FrontCounters> front;   // of the web server, for /metrics; may be null
  audio::PlayoutOptions playout;
  audio::OpusEncoderOptions opus;
};

class VoiceService {
 public:
  // Everything given outlives the service. Throws InputError for an engine whose frames are not
  // 80 ms at 24 kHz, or options out of range.
  VoiceService(boost::asio::io_context& io, engine::Engine& engine,
               const VoiceServiceOptions& options, Clock& clock);
  ~VoiceService();
  VoiceService(const VoiceService&) = delete;
  VoiceService& operator=(const VoiceService&) = delete;

  // /v1/voice and /api/chat.
  std::vector<WebSocketRoute> socket_routes();
  // /healthz, /readyz, /metrics, /v1/info.
  std::vector<HttpRoute> http_routes();

  // Starts the tick thread.
  void Start();
  // Admits nobody any more, lets conversations go on for drain_grace, says goodbye to those left,
  // and calls `done` when all are gone, at the latest 2 s after the goodbye. Once only.
  void Drain(std::function<void()> done);
  // Ends what is left and stops the tick thread.
  void Stop();

  TickStats tick_stats() const;
  size_t open_sessions() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::daemon
