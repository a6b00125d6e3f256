#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/check.h"
#include "engine/error.h"
#include "engine/make_executor.h"

namespace antiphon::cli {

void CheckReport::Line(const std::string& name, const std::string& result, bool ok) {
  ++tensors_;
  if (!ok) ++failures_;
  if (ok && options_.quiet) return;
  std::printf("  %-44s %s%s\n", name.c_str(), result.c_str(), ok ? "" : "  FAILED");
}

void CheckReport::Floats(const std::string& name, const std::vector<float>& expected,
                         const std::vector<float>& found) {
  if (expected.size() != found.size()) {
    Line(name,
         "expected " + std::to_string(expected.size()) + " values, found " +
             std::to_string(found.size()),
         false);
    return;
  }
  double largest = 0.0, worst = 0.0;
  bool finite = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(double{expected[i]}));
    worst = std::max(worst, std::fabs(double{expected[i]} - double{found[i]}));
    finite = finite && std::isfinite(found[i]);
  }
  const double relative = largest > 0.0 ? worst / largest : worst;
  char text[96];
  std::snprintf(text, sizeof text, "max abs %.3e  relative %.3e", worst, relative);
  Line(name, text, finite && relative <= options_.tolerance);
}

void CheckReport::Tokens(const std::string& name, const std::vector<int32_t>& expected,
                         const std::vector<int32_t>& found) {
  if (expected.size() != found.size()) {
    Line(name,
         "expected " + std::to_string(expected.size()) + " tokens, found " +
             std::to_string(found.size()),
         false);
    return;
  }
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i]) continue;
    if (wrong++ == 0) first = i;
  }
  std::string text =
      std::to_string(wrong) + " of " + std::to_string(expected.size()) + " tokens differ";
  if (wrong > 0) {
    text += " (first at " + std::to_string(first) + ": expected " +
            std::to_string(expected[first]) + ", found " + std::to_string(found[first]) + ")";
  }
  Line(name, text, wrong == 0);
}

void CheckReport::Note(const std::string& text) {
  if (!options_.quiet) std::printf("  %s\n", text.c_str());
}

void CheckReport::Fail(const std::string& text) { Line(text, "", false); }

std::vector<float> GoldenFile::FloatsOf(const std::string& tensor) const {
  const engine::TensorView& view = tensors->Get(tensor);
  std::vector<float> out(static_cast<size_t>(view.elements()));
  engine::ReadFloats(view, 0, view.elements(), out.data());
  return out;
}

std::vector<int32_t> GoldenFile::IntsOf(const std::string& tensor) const {
  const engine::TensorView& view = tensors->Get(tensor);
  std::vector<int32_t> out(static_cast<size_t>(view.elements()));
  engine::ReadInts(view, 0, view.elements(), out.data());
  return out;
}

std::unique_ptr<engine::Model> MakeCheckedModel(
    std::shared_ptr<const engine::Checkpoint> checkpoint, engine::ModelOptions options,
    const CheckOptions& check) {
  options.taps = true;
  options.kv = engine::ParseKvFormat(check.kv);
  return std::make_unique<engine::Model>(
      std::move(checkpoint), options,
      engine::MakeExecutor(check.executor, check.weights, check.threads));
}

void TapRecorder::Floats(const std::string& name, int row, std::vector<float>* out) const {
  const kernels::Plan::Tap* tap = model_.FindTap(name);
  if (tap == nullptr) throw InputError("the plan has no intermediate named " + name);
  for (int step = 0; step < tap->steps; ++step) {
    const float* values = model_.Tap(name, row, step);
    out->insert(out->end(), values, values + tap->width);
  }
}

void TapRecorder::Ints(const std::string& name, int row, int first, int count,
                       std::vector<int32_t>* out) const {
  const auto* values = reinterpret_cast<const int32_t*>(model_.Tap(name, row));
  out->insert(out->end(), values + first, values + first + count);
}

}  // namespace antiphon::cli
