#include "daemon/voice_service.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "daemon/metrics_text.h"
#include "daemon/moshi_connection.h"
#include "daemon/service_metrics.h"
#include "daemon/session_table.h"
#include "daemon/voice_connection.h"
#include "daemon/voice_protocol.h"
#include "engine/error.h"

namespace antiphon::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kClockEvery{100};
constexpr std::chrono::seconds kStalledAfter{1};
constexpr std::chrono::seconds kGoodbyeWithin{2};

int SessionLimit(const engine::EngineInfo& info, const VoiceServiceOptions& options) {
  if (info.frame_samples != kFrameSamples || info.sample_rate_hz != audio::kOpusRateHz) {
    throw InputError(
        "model " + info.model_name + ": expected frames of 1920 samples at 24000 Hz, " + "found " +
        std::to_string(info.frame_samples) + " at " + std::to_string(info.sample_rate_hz));
  }
  if (options.max_sessions < 0 || info.slots < 1) {
    throw InputError("max_sessions: expected 0 or more, found " +
                     std::to_string(options.max_sessions));
  }
  return options.max_sessions == 0 ? info.slots : std::min(options.max_sessions, info.slots);
}

int CodecThreads(const VoiceServiceOptions& options) {
  if (options.codec_threads > 0) return options.codec_threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

TickOptions MakeTickOptions(const engine::EngineInfo& info, const VoiceServiceOptions& options) {
  TickOptions ticks;
  ticks.lanes = SessionLimit(info, options);
  ticks.guard = options.prefill_guard;
  ticks.realtime_priority = options.realtime_priority;
  ticks.playout = options.playout;
  return ticks;
}

// Closed last of all: the tick thread writes to it.
struct EventFd {
  EventFd() : fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd < 0) throw InputError("eventfd: the system has no file descriptor left");
  }
  ~EventFd() { close(fd); }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  const int fd;
};

}  // namespace

class VoiceService::State {
 public:
  State(asio::io_context& io, engine::Engine& engine, const VoiceServiceOptions& options,
        Clock& clock)
      : engine_(engine),
        options_(options),
        clock_(clock),
        ticks_(engine, clock, MakeTickOptions(engine.info(), options), wake_.fd),
        codecs_(CodecThreads(options)),
        preparers_(1),
        table_({io, engine, clock, ticks_, codecs_, preparers_, options.opus, options.start_within,
                options.max_per_address, options.limit_loopback}),
        reader_(io, dup(wake_.fd)),
        clock_timer_(io),
        drain_timer_(io) {}

  ~State() { Stop(); }

  void Start() {
    ticks_.Start();
    ReadWake();
    WaitClock();
  }

  void Drain(std::function<void()> done) {
    table_.StopAdmitting();
    done_ = std::move(done);
    goodbye_at_ = clock_.Now() + options_.drain_grace;
    PollDrain();
  }

  void Stop() {
    if (std::exchange(stopped_, true)) return;
    table_.StopAdmitting();
    table_.EndAll(SessionEvents::End::kDraining);
    ticks_.Stop();
    reader_.cancel();
    clock_timer_.cancel();
    drain_timer_.cancel();
  }

  template <class Connection>
  WebSocketRoute Route(std::string path, std::string_view sub_protocol) {
    WebSocketRoute route;
    route.path = std::move(path);
    route.sub_protocol = sub_protocol;
    route.right = Right::kTalk;
    route.max_message_bytes = kVoiceMaxMessageBytes;
    route.make_handler = [this](const ConnectionInfo&) {
      return std::make_unique<Connection>(table_, clock_);
    };
    return route;
  }

  HttpResponse Health() const {
    if (clock_.Now() - ticks_.last_turn() <= kStalledAfter) return {200, kPlain, "ok\n", {}};
    return {503, kPlain, "no ticks are made\n", {}};
  }

  HttpResponse Ready() const {
    const std::map<std::string, std::string> later = {
        {"Retry-After", std::to_string(kRetryAfterMs / 1000)}};
    if (table_.draining()) return {503, kPlain, "draining\n", later};
    if (table_.free_lanes() == 0) return {503, kPlain, "busy\n", later};
    if (clock_.Now() - ticks_.last_turn() > kStalledAfter) return Health();
    return {200, kPlain, "ready\n", {}};
  }

  HttpResponse Metrics() const {
    const MetricsSources sources = {ticks_, table_, CodecThreads(options_), Health().status == 200,
                                    options_.front.get()};
    return {200,
            MetricsText::kContentType,
            ServiceMetrics(sources, clock_.Now()),
            {{"Cache-Control", "no-store"}}};
  }

  HttpResponse Info() const {
    using nlohmann::json;
    const TickStats stats = ticks_.stats();
    const json info = {{"version", kServerName},
                       {"model", json::parse(ModelInfoJson(engine_.info()))},
                       {"slots",
                        {{"total", table_.capacity()},
                         {"used", table_.capacity() - table_.free_lanes()},
                         {"free", table_.free_lanes()}}},
                       {"sessions",
                        {{"open", table_.open_sessions()},
                         {"admitted", table_.admitted()},
                         {"refused", table_.refused()},
                         {"ignored_messages", table_.peers().ignored},
                         {"faulty_messages", table_.peers().faulty},
                         {"client_underruns", table_.peers().underruns}}},
                       {"draining", table_.draining()},
                       {"ticks",
                        {{"ticks", stats.ticks},
                         {"missed", stats.missed},
                         {"frames", stats.frames},
                         {"late", stats.late},
                         {"degraded", stats.degraded},
                         {"starved", stats.starved},
                         {"p50_ms", stats.p50_ms},
                         {"p99_ms", stats.p99_ms},
                         {"p999_ms", stats.p999_ms},
                         {"max_ms", stats.max_ms}}}};
    return {200, "application/json", info.dump() + "\n", {{"Cache-Control", "no-store"}}};
  }

  TickLoop& ticks() { return ticks_; }
  SessionTable& table() { return table_; }

 private:
  static constexpr const char* kPlain = "text/plain; charset=utf-8";

  void ReadWake() {
    reader_.async_read_some(asio::buffer(&wakes_, sizeof(wakes_)),
                            [this](const boost::system::error_code& error, size_t) {
                              if (error) return;  // cancelled: we may be gone
                              table_.OnWake();
                              ReadWake();
                            });
  }

  void WaitClock() {
    clock_timer_.expires_after(kClockEvery);
    clock_timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      table_.OnClock(clock_.Now());
      WaitClock();
    });
  }

  void PollDrain() {
    const Time now = clock_.Now();
    if (now >= goodbye_at_) table_.EndAll(SessionEvents::End::kDraining);
    const bool gone = table_.open_sessions() == 0 && table_.free_lanes() == table_.capacity();
    if (gone || now >= goodbye_at_ + kGoodbyeWithin) {
      if (const auto done = std::exchange(done_, nullptr)) done();
      return;
    }
    drain_timer_.expires_after(std::chrono::milliseconds(20));
    drain_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) PollDrain();
    });
  }

  // Given to us.
  engine::Engine& engine_;
  const VoiceServiceOptions options_;
  Clock& clock_;
  // Owned by us, in the order that they need each other.
  EventFd wake_;
  TickLoop ticks_;
  audio::CodecPool codecs_, preparers_;
  SessionTable table_;
  asio::posix::stream_descriptor reader_;
  asio::steady_timer clock_timer_, drain_timer_;
  // State.
  uint64_t wakes_ = 0;
  std::function<void()> done_;
  Time goodbye_at_;
  bool stopped_ = false;
};

VoiceService::VoiceService(asio::io_context& io, engine::Engine& engine,
                           const VoiceServiceOptions& options, Clock& clock)
    : state_(std::make_unique<State>(io, engine, options, clock)) {}

VoiceService::~VoiceService() = default;

std::vector<WebSocketRoute> VoiceService::socket_routes() {
  std::vector<WebSocketRoute> routes;
  routes.push_back(state_->Route<VoiceConnection>("/v1/voice", kVoiceSubProtocol));
  routes.push_back(state_->Route<MoshiConnection>("/api/chat", ""));
  return routes;
}

std::vector<HttpRoute> VoiceService::http_routes() {
  State* state = state_.get();
  return {
      {"/healthz", [state](const ConnectionInfo&) { return state->Health(); }},
      {"/readyz", [state](const ConnectionInfo&) { return state->Ready(); }},
      {"/metrics", [state](const ConnectionInfo&) { return state->Metrics(); }, Right::kMetrics},
      {"/v1/info", [state](const ConnectionInfo&) { return state->Info(); }, Right::kAny}};
}

void VoiceService::Start() { state_->Start(); }
void VoiceService::Drain(std::function<void()> done) { state_->Drain(std::move(done)); }
void VoiceService::Stop() { state_->Stop(); }
TickStats VoiceService::tick_stats() const { return state_->ticks().stats(); }
size_t VoiceService::open_sessions() const { return state_->table().open_sessions(); }

}  // namespace antiphon::daemon
