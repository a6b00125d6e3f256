// antiphond: options, log, engine, sessions, web server, signals.
//
// Exit status: 0 stopped when asked to, 1 --check-config found faults, 2 configuration, 3 model,
// 4 address in use, 5 failed.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>

#include "daemon/clock.h"
#include "daemon/config_file.h"
#include "daemon/inherited_sockets.h"
#include "daemon/log.h"
#include "daemon/realtime.h"
#include "daemon/service_notify.h"
#include "daemon/static_page.h"
#include "daemon/tls_certificate.h"
#include "daemon/voice_service.h"
#include "daemon/web_server.h"
#include "engine/engine.h"

namespace antiphon::daemon {
namespace {

constexpr int kFaultsStatus = 1, kConfigurationStatus = 2, kModelStatus = 3, kAddressStatus = 4,
              kFailedStatus = 5;

constexpr const char* kUsage =
    "antiphond [--config FILE] [--section.key=value ...]\n"
    "  --config FILE    read this configuration (default: built-in values)\n"
    "  --check-config   name every fault of the configuration (status 1) or none (0), and stop\n"
    "  --print-config   print the configuration in force, and stop\n"
    "  --version, --help\n"
    "Keys, with their defaults:\n\n";

struct CommandLine {
  Configuration configuration;
  bool check = false, print = false;
};

// Nothing where the answer was printed already. Throws InputError for arguments that are none.
std::optional<CommandLine> ReadCommandLine(int argc, char** argv) {
  CommandLine line;
  std::vector<std::string_view> overrides;
  for (int n = 1; n < argc; ++n) {
    const std::string_view argument = argv[n];
    if (argument == "--help") {
      std::printf("%s%s", kUsage, FormatOptions({}, false).c_str());
      return std::nullopt;
    }
    if (argument == "--version") {
      std::printf("antiphond %s\n", ANTIPHON_VERSION);
      return std::nullopt;
    }
    if (argument == "--config") {
      if (++n == argc) throw InputError("--config: expected a file, found nothing");
      ReadConfigFile(argv[n], &line.configuration);
    } else if (argument.starts_with("--config=")) {
      ReadConfigFile(std::string(argument.substr(9)), &line.configuration);
    } else if (argument == "--check-config") {
      line.check = true;
    } else if (argument == "--print-config") {
      line.print = true;
    } else if (argument.starts_with("--")) {
      overrides.push_back(argument.substr(2));
    } else {
      throw InputError("arguments: expected --section.key=value, found \"" + std::string(argument) +
                       "\"");
    }
  }
  // After the file, wherever they stand.
  for (const std::string_view assignment : overrides) SetOption(assignment, &line.configuration);
  CheckConfiguration(&line.configuration);
  return line;
}

WebServerOptions MakeServerOptions(const DaemonOptions& options) {
  WebServerOptions server;
  const auto add = [&](std::string_view key, const std::string& address, bool tls) {
    const HostPort parsed = ParseHostPort(key, address);
    server.listen.push_back({parsed.host, static_cast<uint16_t>(parsed.port), tls});
    const bool loopback = IsLoopback(parsed.host);
    if (!loopback && options.security_keys.empty()) {
      spdlog::warn("{} is open to other machines, which need a key: make one with antiphon key",
                   address);
    }
    if (!tls && !loopback) {
      spdlog::warn(
          "{} is plain HTTP: browsers on other machines refuse the microphone there; add an "
          "address "
          "to server.tls_listen, or a proxy with HTTPS",
          address);
    }
  };
  server.listen = InheritedSockets();
  if (server.listen.empty()) {
    for (const std::string& address : options.server_listen) add("server.listen", address, false);
    for (const std::string& address : options.server_tls_listen) {
      add("server.tls_listen", address, true);
    }
  }
  const bool tls = std::any_of(server.listen.begin(), server.listen.end(),
                               [](const ListenAddress& address) { return address.tls; });
  server.certificate_file = options.server_certificate;
  server.private_key_file = options.server_private_key;
  if (tls && server.certificate_file.empty()) {
    const CertificateFiles files = SelfSignedCertificate(StateFolder());
    spdlog::info("self-signed certificate: {}", files.certificate);
    server.certificate_file = files.certificate;
    server.private_key_file = files.private_key;
  }
  server.max_connections = static_cast<size_t>(options.server_max_connections);
  server.max_connections_per_address =
      static_cast<size_t>(options.server_max_connections_per_address);
  for (const std::string& key : options.security_keys) server.access.keys.push_back(ParseKey(key));
  server.access.loopback_needs_key = options.security_require_key == "always";
  server.access.origins = options.security_origins;
  server.ping_interval_s = options.server_ping_interval_s;
  server.idle_timeout_s = options.server_idle_timeout_s;
  return server;
}

VoiceServiceOptions MakeServiceOptions(const DaemonOptions& options) {
  VoiceServiceOptions service;
  service.max_sessions = options.sessions_max;
  service.max_per_address = options.sessions_max_per_address;
  service.codec_threads = options.audio_codec_threads;
  service.realtime_priority = options.sessions_realtime_priority;
  service.drain_grace = std::chrono::milliseconds(options.sessions_drain_grace_ms);
  service.start_within = std::chrono::seconds(options.sessions_start_timeout_s);
  service.playout.bound_ms = options.audio_buffer_max_ms;
  service.opus.bitrate_bps = options.audio_opus_bitrate_bps;
  service.opus.complexity = options.audio_opus_complexity;
  return service;
}

std::unique_ptr<engine::Engine> LoadEngine(const DaemonOptions& options) {
  engine::EngineOptions engine;
  engine.model = options.model_path;
  engine.executor = options.model_executor;
  engine.weights = options.model_weights;
  engine.kv = options.model_kv;
  engine.slots = options.sessions_slots;
  engine.threads = options.model_threads;
  // The engine's workers inherit the priority that the tick thread will have.
  const RealtimeScope urgent(options.sessions_realtime_priority);
  return engine::MakeEngine(engine);
}

void SayWhereToGo(const WebServer& server, const WebServerOptions& options) {
  const std::vector<uint16_t> ports = server.ports();
  for (size_t n = 0; n < ports.size(); ++n) {
    const ListenAddress& address = options.listen[n];
    const bool v6 = address.address.find(':') != std::string::npos;
    const bool any = address.address == "0.0.0.0" || address.address == "::";
    const std::string host = any ? "localhost" : v6 ? "[" + address.address + "]" : address.address;
    spdlog::info("talk at {}://{}:{}/", address.tls ? "https" : "http", host, ports[n]);
  }
}

void Serve(const DaemonOptions& options, engine::Engine& engine) {
  boost::asio::io_context io(1);
  MonotonicClock clock;
  const WebServerOptions server_options = MakeServerOptions(options);
  VoiceServiceOptions service_options = MakeServiceOptions(options);
  service_options.front = server_options.counters;
  VoiceService service(io, engine, service_options, clock);
  std::vector<HttpRoute> pages = PageRoutes();
  for (HttpRoute& route : service.http_routes()) pages.push_back(std::move(route));
  std::optional<WebServer> server;
  server.emplace(io, server_options, std::move(pages), service.socket_routes());
  service.Start();

  ServiceNotify notify(io, [&service] { return service.tick_stats().ticks; });
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  const auto stop = [&io] { io.stop(); };
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    spdlog::info("stopping: no new callers; a second signal stops at once");
    notify.Stopping();
    service.Drain(stop);
    signals.async_wait([stop](const boost::system::error_code& again, int) {
      if (!again) stop();
    });
  });
  SayWhereToGo(*server, server_options);
  notify.Ready();
  io.run();
  service.Stop();
  server.reset();
}

int Run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  int status = kConfigurationStatus;
  try {
    const std::optional<CommandLine> line = ReadCommandLine(argc, argv);
    if (!line) return 0;
    const auto& [options, origins, faults] = line->configuration;
    for (const std::string& fault : faults) std::fprintf(stderr, "antiphond: %s\n", fault.c_str());
    if (!faults.empty()) return line->check ? kFaultsStatus : kConfigurationStatus;
    if (line->print) std::printf("%s", FormatOptions(options, false).c_str());
    if (line->check) std::printf("the configuration is good\n");
    if (line->print || line->check) return 0;
    StartLog(options.log_level);
    status = kModelStatus;
    const auto engine = LoadEngine(options);
    spdlog::info("model {}: {} slots", engine->info().model_name, engine->info().slots);
    status = kFailedStatus;
    Serve(options, *engine);
    return 0;
  } catch (const AddressInUse& error) {
    std::fprintf(stderr, "antiphond: %s\n", error.what());
    return kAddressStatus;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "antiphond: %s\n", error.what());
    return status;
  }
}

}  // namespace
}  // namespace antiphon::daemon

int main(int argc, char** argv) { return antiphon::daemon::Run(argc, argv); }
