#include "daemon/metrics_text.h"

#include <array>
#include <charconv>

namespace antiphon::daemon {
namespace {

std::string Number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end);
}

void AppendLabel(std::string_view name, std::string_view value, std::string* out) {
  *out += out->back() == '{' ? "" : ",";
  out->append(name).append("=\"");
  for (const char c : value) {
    if (c == '\n') {
      *out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') *out += '\\';
    *out += c;
  }
  *out += '"';
}

}  // namespace

void MetricsText::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void MetricsText::Line(std::string_view suffix, Labels labels, std::string_view edge,
                       double value) {
  text_.append(name_).append(suffix);
  if (labels.size() > 0 || !edge.empty()) {
    text_ += '{';
    for (const auto& [name, label] : labels) AppendLabel(name, label, &text_);
    if (!edge.empty()) AppendLabel("le", edge, &text_);
    text_ += '}';
  }
  text_.append(" ").append(Number(value)).append("\n");
}

void MetricsText::Sample(Labels labels, double value) { Line("", labels, "", value); }

void MetricsText::Sample(Labels labels, const EdgeHistogram& histogram) {
  uint64_t below = 0;
  for (size_t n = 0; n <= EdgeHistogram::kEdges_us.size(); ++n) {
    below += histogram.count(n);
    const bool last = n == EdgeHistogram::kEdges_us.size();
    const std::string edge = last ? "+Inf" : Number(EdgeHistogram::kEdges_us[n] / 1e6);
    Line("_bucket", labels, edge, static_cast<double>(below));
  }
  Line("_sum", labels, "", histogram.sum_s());
  Line("_count", labels, "", static_cast<double>(below));
}

void MetricsText::Counter(std::string_view name, std::string_view help, double value) {
  Family(name, "counter", help);
  Sample({}, value);
}

void MetricsText::Gauge(std::string_view name, std::string_view help, double value) {
  Family(name, "gauge", help);
  Sample({}, value);
}

}  // namespace antiphon::daemon
