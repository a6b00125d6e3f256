// Writes metrics in Prometheus' text format 0.0.4. Units are Prometheus' base units: seconds,
// bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/edge_histogram.h"

namespace antiphon::daemon {

class MetricsText {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Begins a family; its samples follow. `type`: "counter", "gauge" or "histogram". REQUIRES: each
  // name once; counters end in _total.
  void Family(std::string_view name, std::string_view type, std::string_view help);
  // One sample of the family begun last. Label values are escaped.
  void Sample(Labels labels, double value);
  // All buckets, sum and count of one histogram of the family begun last.
  void Sample(Labels labels, const EdgeHistogram& histogram);
  // A family of one sample without labels.
  void Counter(std::string_view name, std::string_view help, double value);
  void Gauge(std::string_view name, std::string_view help, double value);

  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view suffix, Labels labels, std::string_view edge, double value);

  std::string text_;
  std::string name_;  // of the family begun last
};

}  // namespace antiphon::daemon
