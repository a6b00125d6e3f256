// What the daemon can be told. One table describes every key; parsing, overriding, --help,
// --print-config and the shipped antiphond.toml all come from it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace antiphon::daemon {

// [section] key is the member section_key.
struct DaemonOptions {
  std::vector<std::string> server_listen = {"127.0.0.1:8998"};
  std::vector<std::string> server_tls_listen;
  std::string server_certificate, server_private_key;
  int server_max_connections = 1024;
  int server_ping_interval_s = 5;
  int server_idle_timeout_s = 10;
  int server_max_connections_per_address = 64;
  std::vector<std::string> security_keys;
  std::string security_require_key = "remote";
  std::vector<std::string> security_origins;
  std::string model_path = "embedded";
  std::string model_executor = "cpu";
  std::string model_weights = "auto";
  std::string model_kv = "auto";
  int model_threads = 0;
  int sessions_slots = 4;
  int sessions_max = 0;
  int sessions_max_per_address = 0;
  int sessions_start_timeout_s = 10;
  int sessions_drain_grace_ms = 0;
  int sessions_realtime_priority = 20;
  int audio_codec_threads = 0;
  int audio_buffer_max_ms = 240;
  int audio_opus_bitrate_bps = 32000;
  int audio_opus_complexity = 5;
  std::string log_level = "info";
};

// One key of the configuration.
struct OptionKey {
  std::string_view section, key;
  std::variant<std::string DaemonOptions::*, int DaemonOptions::*,
               std::vector<std::string> DaemonOptions::*>
      member;
  std::string_view description;
  int minimum = 0, maximum = 0;           // of whole numbers
  std::vector<std::string_view> choices;  // of words; empty: any
  bool addresses = false;                 // of lists: every text is a HostPort

  std::string name() const;      // "server.listen"
  std::string expected() const;  // "a whole number from 1 to 1024"
};

std::span<const OptionKey> OptionKeys();

// The key of this name, or null. Nearest is what the writer may have meant, "" if nothing is near.
const OptionKey* FindOptionKey(std::string_view name);
std::string NearestOption(std::string_view name);

// The options as TOML. With `shipped`, every line is a comment and shows the default.
std::string FormatOptions(const DaemonOptions& options, bool shipped);

// "127.0.0.1:8998" or "[::1]:8998" cut in two. Throws InputError naming `key`.
struct HostPort {
  std::string host;
  int port = 0;
};
HostPort ParseHostPort(std::string_view key, std::string_view text);

}  // namespace antiphon::daemon
