#include "daemon/options.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

using O = DaemonOptions;

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Value(const DaemonOptions& options, const OptionKey& key) {
  if (const auto* number = std::get_if<int O::*>(&key.member)) {
    return std::to_string(options.**number);
  }
  if (const auto* text = std::get_if<std::string O::*>(&key.member)) {
    return Quoted(options.**text);
  }
  std::string list;
  for (const std::string& item : options.*std::get<std::vector<std::string> O::*>(key.member)) {
    list += (list.empty() ? "" : ", ") + Quoted(item);
  }
  return "[" + list + "]";
}

// Levenshtein's distance.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string OptionKey::name() const { return std::string(section) + "." + std::string(key); }

std::string OptionKey::expected() const {
  if (std::holds_alternative<int O::*>(member)) {
    return "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum);
  }
  if (addresses) return "a list of \"IP:port\" or \"[IPv6]:port\"";
  if (std::holds_alternative<std::vector<std::string> O::*>(member)) return "a list of texts";
  if (choices.empty()) return "a text";
  std::string words;
  for (const std::string_view word : choices) words += (words.empty() ? "" : ", ") + Quoted(word);
  return "one of " + words;
}

std::span<const OptionKey> OptionKeys() {
  static const std::vector<OptionKey> keys = {
      {"server",
       "listen",
       &O::server_listen,
       "Addresses for plain HTTP and WebSockets.",
       0,
       0,
       {},
       true},
      {"server",
       "tls_listen",
       &O::server_tls_listen,
       "Addresses for HTTPS; browsers give the microphone to other machines over HTTPS only.",
       0,
       0,
       {},
       true},
      {"server",
       "certificate",
       &O::server_certificate,
       "PEM certificate chain; empty: a self-signed one is made at first start.",
       0,
       0,
       {}},
      {"server", "private_key", &O::server_private_key, "PEM key of the certificate.", 0, 0, {}},
      {"server",
       "max_connections",
       &O::server_max_connections,
       "Connections open at once; more are closed at once.",
       1,
       65535,
       {}},
      {"server",
       "ping_interval_s",
       &O::server_ping_interval_s,
       "Silent clients are pinged this often, and cut after 2 unanswered pings.",
       1,
       3600,
       {}},
      {"server",
       "idle_timeout_s",
       &O::server_idle_timeout_s,
       "Connections without a whole request for so long are cut.",
       1,
       3600,
       {}},
      {"server",
       "max_connections_per_address",
       &O::server_max_connections_per_address,
       "Connections open at once from one other machine; more are closed at once.",
       1,
       65535,
       {}},
      {"security",
       "keys",
       &O::security_keys,
       "Keys for other machines, hashed, as `antiphon key NAME` prints them.",
       0,
       0,
       {}},
      {"security",
       "require_key",
       &O::security_require_key,
       "Who needs a key; behind a proxy on this machine: \"always\".",
       0,
       0,
       {"remote", "always"}},
      {"security",
       "origins",
       &O::security_origins,
       "Pages of other servers that may call, and names of this one that need no key.",
       0,
       0,
       {}},
      {"model",
       "path",
       &O::model_path,
       "\"embedded\", \"echo\", or a checkpoint folder.",
       0,
       0,
       {}},
      {"model", "executor", &O::model_executor, "What runs the model.", 0, 0, {"cpu", "reference"}},
      {"model",
       "weights",
       &O::model_weights,
       "Weights in memory; \"auto\": as in the checkpoint.",
       0,
       0,
       {"auto", "fp32", "bf16", "int8", "int4"}},
      {"model",
       "kv",
       &O::model_kv,
       "Keys and values in memory; \"auto\": fp32.",
       0,
       0,
       {"auto", "fp32", "bf16", "int8", "int4"}},
      {"model", "threads", &O::model_threads, "Workers; 0: one per physical core.", 0, 1024, {}},
      {"sessions",
       "slots",
       &O::sessions_slots,
       "Conversations the engine has memory for.",
       1,
       1024,
       {}},
      {"sessions",
       "max",
       &O::sessions_max,
       "Conversations admitted at once; 0: all slots.",
       0,
       1024,
       {}},
      {"sessions",
       "max_per_address",
       &O::sessions_max_per_address,
       "Conversations at once from one other machine; 0: no limit.",
       0,
       1024,
       {}},
      {"sessions",
       "start_timeout_s",
       &O::sessions_start_timeout_s,
       "Clients of /v1/voice that do not start for so long give their place back.",
       1,
       3600,
       {}},
      {"sessions",
       "drain_grace_ms",
       &O::sessions_drain_grace_ms,
       "How long conversations may go on after SIGTERM.",
       0,
       86400000,
       {}},
      {"sessions",
       "realtime_priority",
       &O::sessions_realtime_priority,
       "SCHED_FIFO priority of the tick thread and its workers; 0: none.",
       0,
       99,
       {}},
      {"audio",
       "codec_threads",
       &O::audio_codec_threads,
       "Threads for Opus; 0: one per core, at most 8.",
       0,
       64,
       {}},
      {"audio",
       "buffer_max_ms",
       &O::audio_buffer_max_ms,
       "Caller's sound held at most; the oldest beyond is cut.",
       200,
       2000,
       {}},
      {"audio",
       "opus_bitrate_bps",
       &O::audio_opus_bitrate_bps,
       "Bits per second of the answer.",
       6000,
       128000,
       {}},
      {"audio",
       "opus_complexity",
       &O::audio_opus_complexity,
       "Effort of the Opus encoder.",
       0,
       10,
       {}},
      {"log",
       "level",
       &O::log_level,
       "The least urgent lines to write.",
       0,
       0,
       {"debug", "info", "warning", "error"}},
  };
  return keys;
}

const OptionKey* FindOptionKey(std::string_view name) {
  for (const OptionKey& key : OptionKeys()) {
    if (key.name() == name) return &key;
  }
  return nullptr;
}

std::string NearestOption(std::string_view name) {
  constexpr size_t kNear = 4;
  size_t best = kNear;
  std::string nearest;
  for (const OptionKey& key : OptionKeys()) {
    const size_t distance = Distance(name, key.name());
    if (distance < best) {
      best = distance;
      nearest = key.name();
    }
  }
  return nearest;
}

std::string FormatOptions(const DaemonOptions& options, bool shipped) {
  std::string text;
  if (shipped) {
    text =
        "# Configuration of antiphond. Every line shows a default; remove the '#' to change it.\n"
        "# On the command line: --section.key=value. Check with: antiphond --check-config\n";
  }
  std::string_view section;
  for (const OptionKey& key : OptionKeys()) {
    if (key.section != section) {
      section = key.section;
      text += (text.empty() ? "[" : "\n[") + std::string(section) + "]\n";
    }
    text += "# " + std::string(key.description) + " Expected: " + key.expected() + ".\n";
    text += (shipped ? "#" : "") + std::string(key.key) + " = " + Value(options, key) + "\n";
  }
  return text;
}

HostPort ParseHostPort(std::string_view key, std::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort result;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
      host = {};
    }
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
    if (error == std::errc() && end == port.data() + port.size() && !host.empty() &&
        result.port >= 0 && result.port <= 65535) {
      result.host = host;
      return result;
    }
  }
  throw InputError(std::string(key) + ": expected \"IP:port\" or \"[IPv6]:port\", found " +
                   Quoted(text));
}

}  // namespace antiphon::daemon
