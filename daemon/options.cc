#include "daemon/options.h"

#include <arpa/inet.h>

#include <charconv>

#include "daemon/web_server.h"
#include "engine/error.h"

namespace antiphon::daemon {

std::vector<OptionKey> OptionTable(DaemonOptions& o) {
  return {
      {"server", "listen", &o.server.listen,
       "Addresses for plain HTTP and WebSockets: \"ADDRESS:PORT\" or \"[ADDRESS]:PORT\".\n"
       "Browsers give a page the microphone only on localhost or over TLS: for other machines use\n"
       "tls_listen."},
      {"server", "tls_listen", &o.server.tls_listen,
       "Addresses for HTTPS and secure WebSockets, e.g. [\"0.0.0.0:8999\"]."},
      {"server", "certificate", &o.server.certificate,
       "PEM file with the certificate chain; empty: a self-signed one, made at first start."},
      {"server", "private_key", &o.server.private_key,
       "PEM file with the certificate's private key; needed with certificate."},
      {.section = "server",
       .name = "max_connections",
       .field = &o.server.max_connections,
       .description = "Connections of all kinds at once; one too many is closed at once.",
       .minimum = 1,
       .maximum = 65536},
      {"model", "path", &o.model.path,
       "\"embedded\", \"echo\" (callers hear themselves), or a checkpoint folder."},
      {"model", "executor", &o.model.executor, "What computes.", {"cpu", "reference"}},
      {"model",
       "weights",
       &o.model.weights,
       "Numbers that weights are kept in; auto: as in the checkpoint.",
       {"auto", "fp32", "bf16"}},
      {.section = "model",
       .name = "threads",
       .field = &o.model.threads,
       .description = "Worker threads of the executor; 0: one per physical core.",
       .minimum = 0,
       .maximum = 1024},
      {.section = "sessions",
       .name = "max",
       .field = &o.sessions.max,
       .description = "Conversations at once; the next caller is told that all lines are busy.",
       .minimum = 1,
       .maximum = 1024},
      {.section = "sessions",
       .name = "start_timeout_s",
       .field = &o.sessions.start_timeout_s,
       .description = "Seconds that a caller may take until his start message.",
       .minimum = 1,
       .maximum = 3600},
      {.section = "sessions",
       .name = "drain_timeout_s",
       .field = &o.sessions.drain_timeout_s,
       .description = "Seconds that conversations may go on once the daemon is told to stop.",
       .minimum = 0,
       .maximum = 3600},
      {.section = "audio",
       .name = "opus_bitrate",
       .field = &o.audio.opus_bitrate,
       .description = "Bits per second of the speech that is sent.",
       .minimum = 6000,
       .maximum = 128000},
      {.section = "audio",
       .name = "opus_complexity",
       .field = &o.audio.opus_complexity,
       .description = "Effort of the Opus encoder.",
       .minimum = 0,
       .maximum = 10},
      {.section = "audio",
       .name = "codec_threads",
       .field = &o.audio.codec_threads,
       .description = "Threads that encode and decode Opus; 0: one per core, at most 8.",
       .minimum = 0,
       .maximum = 64},
      {.section = "audio",
       .name = "buffer_max_ms",
       .field = &o.audio.buffer_max_ms,
       .description = "Most sound of a caller that may wait for the model, in milliseconds; what "
                      "comes on top\n"
                      "after a stall is dropped, oldest first.",
       .minimum = 160,
       .maximum = 2000},
      {"log",
       "level",
       &o.log.level,
       "Least weight of a log line. Lines never hold sound or words of a conversation.",
       {"debug", "info", "warn", "error"}},
  };
}

std::string Expected(const OptionKey& key) {
  if (std::holds_alternative<std::vector<std::string>*>(key.field)) return "a list of strings";
  if (std::holds_alternative<int*>(key.field)) {
    return "an integer from " + std::to_string(key.minimum) + " to " + std::to_string(key.maximum);
  }
  if (key.choices.empty()) return "a string";
  std::string text = "one of";
  for (const std::string_view choice : key.choices) {
    text += (choice == key.choices.front() ? " \"" : ", \"") + std::string(choice) + '"';
  }
  return text;
}

std::vector<std::string> Contradictions(const DaemonOptions& options) {
  std::vector<std::string> faults;
  const auto check = [&](const char* key, const std::vector<std::string>& addresses, bool tls) {
    for (const std::string& text : addresses) {
      try {
        ParseListenAddress(text, tls);
      } catch (const InputError& error) {
        faults.push_back(std::string(key) + ": " + error.what());
      }
    }
  };
  check("server.listen", options.server.listen, false);
  check("server.tls_listen", options.server.tls_listen, true);
  if (options.server.listen.empty() && options.server.tls_listen.empty()) {
    faults.push_back("server.listen: expected an address here or in server.tls_listen, found none");
  }
  if (options.server.certificate.empty() != options.server.private_key.empty()) {
    const bool has_certificate = !options.server.certificate.empty();
    faults.push_back(std::string("server.") + (has_certificate ? "private_key" : "certificate") +
                     ": expected a file, as server." +
                     (has_certificate ? "certificate" : "private_key") + " names one, found none");
  }
  return faults;
}

ListenAddress ParseListenAddress(const std::string& text, bool tls) {
  const auto fail = [&]() -> InputError {
    return InputError(
        "expected \"ADDRESS:PORT\" with a numeric address (IPv6 in brackets), found \"" + text +
        '"');
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw fail();
  std::string host = text.substr(0, colon);
  ListenAddress parsed;
  parsed.tls = tls;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, parsed.port);
  if (error != std::errc() || rest != end) throw fail();
  if (host == "localhost") host = "127.0.0.1";
  unsigned char binary[sizeof(in6_addr)];
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), binary) != 1) throw fail();
  } else if (inet_pton(AF_INET, host.c_str(), binary) != 1) {
    throw fail();
  }
  parsed.address = host;
  return parsed;
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace antiphon::daemon
