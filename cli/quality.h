// `antiphon quality DIR`: what weight and key/value formats cost a model, teacher-forced against
// fp32.
#pragma once

#include <vector>

#include "cli/teacher_forcing.h"

namespace CLI {
class App;
}

namespace antiphon::cli {

// Differences of one model's distributions from another's over the same evaluations, per stream
// (text, then the codebooks).
struct QualityRow {
  std::vector<double> agreement;  // share of evaluations with the same likeliest token
  std::vector<double> nll_rise;   // mean rise of -log p(token given), nats
  std::vector<double> kl;         // mean KL(reference || model), nats
};

QualityRow CompareQuality(const std::vector<Evaluation>& reference,
                          const std::vector<Evaluation>& found);

void RegisterQuality(CLI::App& app, int* exit_status);

}  // namespace antiphon::cli
