// Embeddings of tokens: plain sums of tables, low-rank tables and two-stream tokens
// (tests/golden/ARCHITECTURE.md 3.1 and 3.3).
#pragma once

#include <string>
#include <vector>

#include "engine/plan_builder.h"

namespace antiphon::engine {

// One table with its options.
struct Embedding {
  std::string name;  // tensors <name>.weight, <name>.low_rank.weight, <name>.out1.weight, ...
  int rows = 0;
  int low_rank = 0;    // width of the table; 0: the output's width
  bool demux = false;  // tokens carry two streams, mixed by out1 and out2
};

// out (=, or += with accumulate) sum of <name>.weight[token] over the tables, tokens in order.
void AppendPlainEmbedding(PlanBuilder& builder, const SafeTensors& tensors,
                          const std::vector<std::string>& names, int rows, const View& tokens,
                          const View& out, bool accumulate);

// out (=, or += with accumulate) the embedding of tokens[row, 0].
void AppendEmbedding(PlanBuilder& builder, const SafeTensors& tensors, const Embedding& embedding,
                     const View& tokens, const View& out, bool accumulate);

}  // namespace antiphon::engine
