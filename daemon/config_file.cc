#include "daemon/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "daemon/credentials.h"
#include "engine/error.h"

namespace antiphon::daemon {
namespace {

using O = DaemonOptions;
using List = std::vector<std::string>;

// Sets keys of one place in a file or on the command line.
class Setter {
 public:
  Setter(std::string where, Configuration* configuration)
      : where_(std::move(where)), to_(*configuration) {}

  // The key of this name; null and a fault where there is none.
  const OptionKey* Find(const std::string& name) {
    const OptionKey* const key = FindOptionKey(name);
    if (key != nullptr) return key;
    const std::string nearest = NearestOption(name);
    Fault(name + ": unknown key" + (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    return nullptr;
  }

  void Number(const OptionKey& key, int64_t value) {
    if (value < key.minimum || value > key.maximum) return Refuse(key, std::to_string(value));
    Set(key, static_cast<int>(value));
  }

  void Text(const OptionKey& key, const std::string& value) {
    if (!key.choices.empty() &&
        std::find(key.choices.begin(), key.choices.end(), value) == key.choices.end()) {
      return Refuse(key, "\"" + value + "\"");
    }
    Set(key, value);
  }

  void Texts(const OptionKey& key, const List& list) {
    try {
      for (const std::string& item : list) {
        if (key.addresses) ParseHostPort(where_ + key.name(), item);
      }
      Set(key, list);
    } catch (const InputError& error) {
      to_.faults.emplace_back(error.what());
    }
  }

  void Refuse(const OptionKey& key, const std::string& found) {
    Fault(key.name() + ": expected " + key.expected() + ", found " + found);
  }
  void Fault(const std::string& what) { to_.faults.push_back(where_ + what); }

 private:
  template <class T>
  void Set(const OptionKey& key, const T& value) {
    to_.options.*std::get<T O::*>(key.member) = value;
    to_.origins[key.name()] = where_;
  }

  const std::string where_;
  Configuration& to_;
};

std::string Shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

void SetNode(Setter setter, const OptionKey& key, const toml::node& node) {
  if (std::holds_alternative<int O::*>(key.member)) {
    if (!node.is_integer()) return setter.Refuse(key, Shown(node));
    setter.Number(key, **node.as_integer());
  } else if (std::holds_alternative<std::string O::*>(key.member)) {
    if (!node.is_string()) return setter.Refuse(key, Shown(node));
    setter.Text(key, **node.as_string());
  } else {
    List list;
    if (!node.is_array()) return setter.Refuse(key, Shown(node));
    for (const toml::node& item : *node.as_array()) {
      if (!item.is_string()) return setter.Refuse(key, Shown(node));
      list.push_back(**item.as_string());
    }
    setter.Texts(key, list);
  }
}

// a,b, or as the file has it: ["a", "b"].
List SplitList(const std::string& value) {
  const bool bracketed = value.starts_with("[\"") && value.ends_with("\"]");
  std::istringstream items(bracketed ? value.substr(1, value.size() - 2) : value);
  List list;
  for (std::string item; std::getline(items, item, ',');) {
    const size_t begin = item.find_first_not_of(" \"");
    if (begin == std::string::npos) continue;
    list.push_back(item.substr(begin, item.find_last_not_of(" \"") - begin + 1));
  }
  return list;
}

std::string Where(const std::string& file, const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line) + ": ";
}

// Tables come sorted by name; a reader wants faults in the order of his lines.
std::vector<std::pair<std::string, const toml::node*>> InFileOrder(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> nodes;
  for (const auto& [name, node] : table) nodes.emplace_back(name.str(), &node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
    return a.second->source().begin.line < b.second->source().begin.line;
  });
  return nodes;
}

void ReadSection(const std::string& name, const toml::table& table, const std::string& file,
                 Configuration* configuration) {
  for (const auto& [key, value] : InFileOrder(table)) {
    Setter setter(Where(file, value->source()), configuration);
    const OptionKey* const option = setter.Find(name + "." + key);
    if (option != nullptr) SetNode(setter, *option, *value);
  }
}

}  // namespace

void ReadConfigText(std::string_view text, const std::string& file, Configuration* configuration) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    Setter(Where(file, error.source()), configuration)
        .Fault("expected TOML: " + std::string(error.description()));
    return;
  }
  for (const auto& [name, node] : InFileOrder(root)) {
    Setter setter(Where(file, node->source()), configuration);
    const toml::table* const table = node->as_table();
    const auto keys = OptionKeys();
    if (table == nullptr) {
      setter.Fault(name + ": expected a [section] before the first key");
    } else if (std::none_of(keys.begin(), keys.end(),
                            [&, section = name](const auto& k) { return k.section == section; })) {
      setter.Fault("[" + name + "]: unknown section");
    } else {
      ReadSection(name, *table, file, configuration);
    }
  }
}

void ReadConfigFile(const std::string& file, Configuration* configuration) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) {
    configuration->faults.push_back(file + ": expected a readable configuration file, found none");
    return;
  }
  ReadConfigText(text.str(), file, configuration);
}

void SetOption(std::string_view assignment, Configuration* configuration) {
  const size_t equals = assignment.find('=');
  Setter setter("--", configuration);
  const OptionKey* const key = setter.Find(std::string(assignment.substr(0, equals)));
  if (key == nullptr) return;
  if (equals == std::string_view::npos) {
    return setter.Refuse(*key, "no value (--section.key=value)");
  }
  const std::string value(assignment.substr(equals + 1));
  if (std::holds_alternative<int O::*>(key->member)) {
    int64_t parsed = 0;
    const char* const end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, parsed);
    if (result.ec != std::errc() || result.ptr != end) {
      return setter.Refuse(*key, "\"" + value + "\"");
    }
    setter.Number(*key, parsed);
  } else if (std::holds_alternative<std::string O::*>(key->member)) {
    setter.Text(*key, value);
  } else {
    setter.Texts(*key, SplitList(value));
  }
}

void CheckConfiguration(Configuration* configuration) {
  const DaemonOptions& options = configuration->options;
  const auto fault = [&](const std::string& key, const std::string& what) {
    configuration->faults.push_back(configuration->origins[key] + key + ": " + what);
  };
  if (options.server_listen.empty() && options.server_tls_listen.empty()) {
    fault("server.listen",
          "expected at least one address here or in server.tls_listen, found none");
  }
  for (const std::string& key : options.security_keys) {
    try {
      ParseKey(key);
    } catch (const InputError& error) {
      fault("security.keys", error.what());
    }
  }
  if (options.server_certificate.empty() != options.server_private_key.empty()) {
    const bool certificate = !options.server_certificate.empty();
    const std::string given = certificate ? "server.certificate" : "server.private_key";
    const std::string other = certificate ? "server.private_key" : "server.certificate";
    fault(given, "expected together with " + other + ", found alone");
  }
}

}  // namespace antiphon::daemon
