#include "daemon/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

std::string FullName(const OptionKey& key) {
  return std::string(key.section) + '.' + std::string(key.name);
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Value(const OptionKey& key) {
  if (const auto* number = std::get_if<int*>(&key.field)) return std::to_string(**number);
  if (const auto* text = std::get_if<std::string*>(&key.field)) return Quoted(**text);
  std::string list = "[";
  for (const std::string& item : *std::get<std::vector<std::string>*>(key.field)) {
    list += (list.size() > 1 ? ", " : "") + Quoted(item);
  }
  return list + ']';
}

// Levenshtein's distance.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

// " Did you mean ...?" for a name that nearly is one of the candidates, or that stands in another
// section.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, name.size() / 4) + 1;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const std::string& candidate : candidates) {
    const size_t distance =
        candidate.ends_with('.' + std::string(last)) ? 1 : Distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best != nullptr ? "; did you mean " + *best + "?" : "";
}

std::vector<std::string> Names(const std::vector<OptionKey>& table, bool sections) {
  std::vector<std::string> names;
  for (const OptionKey& key : table) {
    names.push_back(sections ? std::string(key.section) : FullName(key));
  }
  return names;
}

// "" or what is wrong.
std::string SetNumber(const OptionKey& key, int64_t number) {
  if (number < key.minimum || number > key.maximum) {
    return "expected " + Expected(key) + ", found " + std::to_string(number);
  }
  *std::get<int*>(key.field) = static_cast<int>(number);
  return "";
}

std::string SetText(const OptionKey& key, const std::string& text) {
  if (!key.choices.empty() && std::ranges::find(key.choices, text) == key.choices.end()) {
    return "expected " + Expected(key) + ", found " + Quoted(text);
  }
  *std::get<std::string*>(key.field) = text;
  return "";
}

std::string Found(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string shown = text.str();
  std::ranges::replace(shown, '\n', ' ');
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  return shown;
}

std::string SetNode(const OptionKey& key, const toml::node& node) {
  const std::string wrong_type = "expected " + Expected(key) + ", found " + Found(node);
  if (std::holds_alternative<int*>(key.field)) {
    return node.is_integer() ? SetNumber(key, **node.as_integer()) : wrong_type;
  }
  if (std::holds_alternative<std::string*>(key.field)) {
    return node.is_string() ? SetText(key, **node.as_string()) : wrong_type;
  }
  if (!node.is_array()) return wrong_type;
  std::vector<std::string> items;
  for (const toml::node& item : *node.as_array()) {
    if (!item.is_string()) return wrong_type;
    items.push_back(**item.as_string());
  }
  *std::get<std::vector<std::string>*>(key.field) = std::move(items);
  return "";
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

// The table as a file; `mark` stands before each value.
std::string Write(const std::vector<OptionKey>& table, std::string_view mark) {
  std::string text;
  std::string_view section;
  for (const OptionKey& key : table) {
    if (key.section != section) text += "\n[" + std::string(section = key.section) + "]\n";
    std::istringstream lines{std::string(key.description)};
    for (std::string line; std::getline(lines, line);) text += "# " + line + '\n';
    if (std::holds_alternative<int*>(key.field) || !key.choices.empty()) {
      text += "# Expected: " + Expected(key) + ".\n";
    }
    text += std::string(mark) + std::string(key.name) + " = " + Value(key) + '\n';
  }
  return text;
}

}  // namespace

void ReadConfig(std::string_view text, const std::string& file, DaemonOptions& options) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw InputError(file + ':' + std::to_string(error.source().begin.line) +
                     ": expected TOML, found a fault: " + std::string(error.description()));
  }
  const std::vector<OptionKey> table = OptionTable(options);
  std::vector<std::string> faults;
  const auto report = [&](const toml::node& node, const std::string& name,
                          const std::string& what) {
    faults.push_back(file + ':' + std::to_string(node.source().begin.line) + ": " + name + ": " +
                     what);
  };
  for (const auto& [section_key, section_node] : root) {
    const std::string section(section_key.str());
    const bool known =
        std::ranges::any_of(table, [&](const auto& k) { return k.section == section; });
    if (!known) {
      report(section_node, section,
             "expected a known section, found an unknown one" +
                 DidYouMean(section, Names(table, !section_node.is_value())));
      continue;
    }
    if (!section_node.is_table()) {
      report(section_node, section, "expected a section, found " + Found(section_node));
      continue;
    }
    for (const auto& [key_key, node] : *section_node.as_table()) {
      const std::string name = section + '.' + std::string(key_key.str());
      const auto key = std::ranges::find(table, name, FullName);
      const std::string fault = key == table.end() ? "expected a known key, found an unknown one" +
                                                         DidYouMean(name, Names(table, false))
                                                   : SetNode(*key, node);
      if (!fault.empty()) report(node, name, fault);
    }
  }
  if (!faults.empty()) throw InputError(Joined(faults));
}

void ReadConfigFile(const std::string& file, DaemonOptions& options) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw InputError(file + ": expected a configuration file, found none that can be read");
  }
  ReadConfig(text.str(), file, options);
}

void OverrideOption(const std::string& name, const std::string& value, DaemonOptions& options) {
  const std::vector<OptionKey> table = OptionTable(options);
  const auto key = std::ranges::find(table, name, FullName);
  if (key == table.end()) {
    throw InputError("--" + name + ": expected a known key, found an unknown one" +
                     DidYouMean(name, Names(table, false)));
  }
  std::string fault;
  if (std::holds_alternative<int*>(key->field)) {
    int64_t number = 0;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    fault = error == std::errc() && rest == end
                ? SetNumber(*key, number)
                : "expected " + Expected(*key) + ", found " + Quoted(value);
  } else if (std::holds_alternative<std::string*>(key->field)) {
    fault = SetText(*key, value);
  } else {
    auto& items = *std::get<std::vector<std::string>*>(key->field);
    items.clear();
    std::istringstream list(value);
    for (std::string item; std::getline(list, item, ',');) items.push_back(item);
  }
  if (!fault.empty()) throw InputError("--" + name + ": " + fault);
}

std::string DefaultConfig() {
  DaemonOptions defaults;
  return "# antiphond: every key with its default. Remove the '#' before a key to change it. On "
         "the\n"
         "# command line every key is --section.key=value, and --check-config says what is "
         "wrong.\n" +
         Write(OptionTable(defaults), "#");
}

std::string PrintConfig(DaemonOptions options) { return Write(OptionTable(options), "").substr(1); }

std::string DescribeOptions() {
  DaemonOptions defaults;
  std::string text;
  for (const OptionKey& key : OptionTable(defaults)) {
    text += "  --" + FullName(key) + "=" + Value(key) + '\n';
    std::istringstream lines{std::string(key.description)};
    for (std::string line; std::getline(lines, line);) text += "      " + line + '\n';
  }
  return text;
}

}  // namespace antiphon::daemon
