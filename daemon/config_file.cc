#include "daemon/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

using O = DaemonOptions;

[[noreturn]] void Refuse(const std::string& where, const OptionKey& key, const std::string& found) {
  throw InputError(where + key.name() + ": expected " + key.expected() + ", found " + found);
}

[[noreturn]] void RefuseUnknown(const std::string& where, const std::string& name) {
  const std::string nearest = NearestOption(name);
  throw InputError(where + name + ": unknown key" +
                   (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
}

void SetNumber(const std::string& where, const OptionKey& key, int O::*member, int64_t value,
               DaemonOptions* options) {
  if (value < key.minimum || value > key.maximum) Refuse(where, key, std::to_string(value));
  options->*member = static_cast<int>(value);
}

void SetText(const std::string& where, const OptionKey& key, std::string O::*member,
             const std::string& value, DaemonOptions* options) {
  if (!key.choices.empty() &&
      std::find(key.choices.begin(), key.choices.end(), value) == key.choices.end()) {
    Refuse(where, key, "\"" + value + "\"");
  }
  options->*member = value;
}

std::string Shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

void SetNode(const std::string& where, const OptionKey& key, const toml::node& node,
             DaemonOptions* options) {
  if (const auto* number = std::get_if<int O::*>(&key.member)) {
    if (!node.is_integer()) Refuse(where, key, Shown(node));
    SetNumber(where, key, *number, **node.as_integer(), options);
  } else if (const auto* text = std::get_if<std::string O::*>(&key.member)) {
    if (!node.is_string()) Refuse(where, key, Shown(node));
    SetText(where, key, *text, **node.as_string(), options);
  } else {
    std::vector<std::string> list;
    if (!node.is_array()) Refuse(where, key, Shown(node));
    for (const toml::node& item : *node.as_array()) {
      if (!item.is_string()) Refuse(where, key, Shown(node));
      list.push_back(**item.as_string());
    }
    options->*std::get<std::vector<std::string> O::*>(key.member) = std::move(list);
  }
}

std::string Where(const std::string& file, const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line) + ": ";
}

}  // namespace

void ReadConfigText(std::string_view text, const std::string& file, DaemonOptions* options) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw InputError(Where(file, error.source()) +
                     "expected TOML: " + std::string(error.description()));
  }
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      throw InputError(Where(file, node.source()) + name +
                       ": expected a [section] before the first key");
    }
    const auto keys = OptionKeys();
    if (std::none_of(keys.begin(), keys.end(), [&](const auto& k) { return k.section == name; })) {
      throw InputError(Where(file, node.source()) + "[" + name + "]: unknown section");
    }
    for (const auto& [key, value] : *table) {
      const std::string where = Where(file, value.source());
      const std::string full = name + "." + std::string(key.str());
      const OptionKey* const option = FindOptionKey(full);
      if (option == nullptr) RefuseUnknown(where, full);
      SetNode(where, *option, value, options);
    }
  }
}

void ReadConfigFile(const std::string& file, DaemonOptions* options) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw InputError(file + ": expected a readable configuration file, found none");
  ReadConfigText(text.str(), file, options);
}

void SetOption(std::string_view assignment, DaemonOptions* options) {
  const size_t equals = assignment.find('=');
  const std::string name(assignment.substr(0, equals));
  const OptionKey* const key = FindOptionKey(name);
  const std::string where = "--";
  if (key == nullptr) RefuseUnknown(where, name);
  if (equals == std::string_view::npos) Refuse(where, *key, "no value (--section.key=value)");
  const std::string value(assignment.substr(equals + 1));
  if (const auto* number = std::get_if<int O::*>(&key->member)) {
    int64_t parsed = 0;
    const char* const end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, parsed);
    if (result.ec != std::errc() || result.ptr != end) Refuse(where, *key, "\"" + value + "\"");
    SetNumber(where, *key, *number, parsed, options);
  } else if (const auto* text = std::get_if<std::string O::*>(&key->member)) {
    SetText(where, *key, *text, value, options);
  } else {
    // a,b, or as the file has it: ["a", "b"].
    const bool bracketed = value.starts_with("[\"") && value.ends_with("\"]");
    std::istringstream items(bracketed ? value.substr(1, value.size() - 2) : value);
    std::vector<std::string> list;
    for (std::string item; std::getline(items, item, ',');) {
      const size_t begin = item.find_first_not_of(" \"");
      if (begin == std::string::npos) continue;
      list.push_back(item.substr(begin, item.find_last_not_of(" \"") - begin + 1));
    }
    options->*std::get<std::vector<std::string> O::*>(key->member) = std::move(list);
  }
}

void CheckOptions(const DaemonOptions& options) {
  for (const std::string& address : options.server_listen) ParseHostPort("server.listen", address);
  for (const std::string& address : options.server_tls_listen) {
    ParseHostPort("server.tls_listen", address);
  }
  if (options.server_listen.empty() && options.server_tls_listen.empty()) {
    throw InputError("server.listen: expected at least one address here or in server.tls_listen");
  }
  if (options.server_certificate.empty() != options.server_private_key.empty()) {
    throw InputError("server.certificate: expected together with server.private_key");
  }
}

}  // namespace antiphon::daemon
