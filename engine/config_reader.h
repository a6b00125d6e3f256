// Typed reading of a JSON object's keys with errors that name the key, what was expected and what
// was found. Private to the configuration parsers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/error.h"

namespace antiphon::engine {

// Parses JSON from outside; discarded (nlohmann's is_discarded) where it is no JSON or nests deeper
// than any configuration does: copying and printing a value recurse once per level.
inline nlohmann::json ParseBoundedJson(const std::string& text) {
  constexpr int kMaxDepth = 32;
  bool deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    deep = deep || depth > kMaxDepth;
    return !deep;
  };
  nlohmann::json value = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (deep) return nlohmann::json::value_t::discarded;
  return value;
}

class ConfigReader {
 public:
  // Throws InputError if text is no JSON object.
  ConfigReader(const std::string& text, std::string origin) : origin_(std::move(origin)) {
    object_ = ParseBoundedJson(text);
    if (!object_.is_object()) throw InputError(origin_ + ": expected a JSON object");
  }
  ConfigReader(nlohmann::json object, std::string origin)
      : object_(std::move(object)), origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }
  const nlohmann::json& json() const { return object_; }
  // True if the key is there and not null.
  bool Has(const std::string& key) const {
    return object_.contains(key) && !object_.at(key).is_null();
  }

  int Int(const std::string& key, int low, int high) const {
    const nlohmann::json& value = Required(key);
    // Range first: converting a double beyond int is undefined.
    const double number = value.is_number() ? value.get<double>() : low - 1.0;
    const bool in_range = number >= low && number <= high;
    if (!in_range || number != static_cast<double>(static_cast<int>(number))) {
      Fail(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high), value);
    }
    return static_cast<int>(number);
  }
  int Int(const std::string& key, int low, int high, int fallback) const {
    return Has(key) ? Int(key, low, high) : fallback;
  }
  double Number(const std::string& key, double low, double high, double fallback) const {
    if (!Has(key)) return fallback;
    const nlohmann::json& value = object_.at(key);
    if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
      Fail(key, "a number from " + Short(low) + " to " + Short(high), value);
    }
    return value.get<double>();
  }
  bool Bool(const std::string& key, bool fallback) const {
    if (!Has(key)) return fallback;
    if (!object_.at(key).is_boolean()) Fail(key, "true or false", object_.at(key));
    return object_.at(key).get<bool>();
  }
  std::string String(const std::string& key, const std::string& fallback) const {
    if (!Has(key)) return fallback;
    if (!object_.at(key).is_string()) Fail(key, "a string", object_.at(key));
    return object_.at(key).get<std::string>();
  }
  std::vector<int> Ints(const std::string& key, int low, int high) const {
    const nlohmann::json& value = Required(key);
    const std::string what =
        "a list of integers from " + std::to_string(low) + " to " + std::to_string(high);
    if (!value.is_array()) Fail(key, what, value);
    std::vector<int> out;
    for (const nlohmann::json& item : value) {
      if (!item.is_number_integer() || item.get<int64_t>() < low || item.get<int64_t>() > high) {
        Fail(key, what, value);
      }
      out.push_back(item.get<int>());
    }
    return out;
  }
  ConfigReader Object(const std::string& key) const {
    const nlohmann::json& value = Required(key);
    if (!value.is_object()) Fail(key, "an object", value);
    return {value, origin_ + ": " + key};
  }

  [[noreturn]] void Fail(const std::string& key, const std::string& expected,
                         const nlohmann::json& found) const {
    std::string text = found.dump();
    if (text.size() > 80) text = text.substr(0, 77) + "...";
    throw InputError(origin_ + ": " + key + ": expected " + expected + ", found " + text);
  }

 private:
  const nlohmann::json& Required(const std::string& key) const {
    if (!Has(key)) throw InputError(origin_ + ": " + key + " is missing");
    return object_.at(key);
  }
  static std::string Short(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  nlohmann::json object_;
  std::string origin_;
};

}  // namespace antiphon::engine
