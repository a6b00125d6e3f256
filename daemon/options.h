// What the operator can set: one plain struct, filled from the configuration file and the command
// line by daemon/config_file.h. Every key's description stands in the table of options.cc.
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace antiphon::daemon {

struct DaemonOptions {
  struct Server {
    std::vector<std::string> listen{"127.0.0.1:8998"};  // "ADDRESS:PORT", "[ADDRESS]:PORT"
    std::vector<std::string> tls_listen;
    std::string certificate;  // PEM file; empty: self-signed, made at first start
    std::string private_key;
    int max_connections = 1024;
  } server;
  struct Model {
    std::string path = "embedded";  // "embedded", "echo" or a checkpoint folder
    std::string executor = "cpu";
    std::string weights = "auto";
    int threads = 0;
  } model;
  struct Sessions {
    int max = 4;
    int start_timeout_s = 10;
    int drain_timeout_s = 10;
  } sessions;
  struct Audio {
    int opus_bitrate = 32000;
    int opus_complexity = 5;
    int codec_threads = 1;
    int buffer_max_ms = 240;
  } audio;
  struct Log {
    std::string level = "info";
  } log;
};

// One row of the table of keys. Parsing, overriding, help, printing and the shipped file are all
// made from it, so that they cannot disagree.
struct OptionKey {
  std::string_view section;
  std::string_view name;
  // The field of the options that the table was made for; its type is the key's type.
  std::variant<std::string*, int*, std::vector<std::string>*> field;
  std::string_view description;                // lines separated by '\n'
  std::vector<std::string_view> choices = {};  // strings: the legal values; empty: any
  int minimum = INT_MIN;
  int maximum = INT_MAX;
};

// Every key in the order of the shipped file. The rows point into `options`.
std::vector<OptionKey> OptionTable(DaemonOptions& options);

// What a key's value must be, in words: "an integer from 1 to 1024".
std::string Expected(const OptionKey& key);

// Faults that concern more than one key, or that a type does not show (addresses, a certificate
// without its key): one sentence each, empty if there are none.
std::vector<std::string> Contradictions(const DaemonOptions& options);

struct ListenAddress;
// "127.0.0.1:8998", "[::1]:8998", "localhost:8998". Throws InputError.
ListenAddress ParseListenAddress(const std::string& text, bool tls);
// 127.0.0.0/8 and ::1: the only plain addresses from which browsers give out the microphone.
bool IsLoopback(const std::string& address);

}  // namespace antiphon::daemon
