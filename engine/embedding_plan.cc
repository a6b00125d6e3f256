#include "engine/embedding_plan.h"

namespace antiphon::engine {

using kernels::Op;
using kernels::OpKind;
using kernels::TokenPart;

namespace {

View OneToken(const View& tokens) { return PlanBuilder::Slice(tokens, 0, 1); }

// Gathers a row of `table` into fresh scratch [row, width] and adds matrix x row to out.
void AppendProjected(PlanBuilder& builder, const SafeTensors& tensors, int32_t table, int width,
                     TokenPart part, const std::string& matrix, const View& tokens, const View& out,
                     bool accumulate) {
  const View row = builder.Scratch(1, width);
  Op& gather = builder.Append(OpKind::kEmbed, OneToken(tokens), row);
  gather.weight = table;
  gather.count = 1;
  gather.token_part = part;
  const TensorView tensor = tensors.Get(matrix, {out.width, width});
  builder.Linear(row, out, builder.Matrix(matrix, tensor, out.width, width)).accumulate =
      accumulate;
  builder.Free(row);
}

}  // namespace

void AppendPlainEmbedding(PlanBuilder& builder, const SafeTensors& tensors,
                          const std::vector<std::string>& names, int rows, const View& tokens,
                          const View& out, bool accumulate) {
  int32_t first = kernels::kNoWeight;
  for (const std::string& name : names) {
    const std::string weight = name + ".weight";
    const int32_t index =
        builder.Table(weight, tensors.Get(weight, {rows, out.width}), rows, out.width);
    if (first == kernels::kNoWeight) first = index;
  }
  Op& op = builder.Append(OpKind::kEmbed, tokens, out);
  op.weight = first;
  op.count = static_cast<int32_t>(names.size());
  op.accumulate = accumulate;
}

void AppendEmbedding(PlanBuilder& builder, const SafeTensors& tensors, const Embedding& embedding,
                     const View& tokens, const View& out, bool accumulate) {
  if (embedding.low_rank == 0 && !embedding.demux) {
    AppendPlainEmbedding(builder, tensors, {embedding.name}, embedding.rows, OneToken(tokens), out,
                         accumulate);
    return;
  }
  const int width = embedding.low_rank > 0 ? embedding.low_rank : out.width;
  const std::string name = embedding.name + ".weight";
  const int32_t table =
      builder.Table(name, tensors.Get(name, {embedding.rows, width}), embedding.rows, width);
  if (!embedding.demux) {
    AppendProjected(builder, tensors, table, width, TokenPart::kWhole,
                    embedding.name + ".low_rank.weight", tokens, out, accumulate);
    return;
  }
  AppendProjected(builder, tensors, table, width, TokenPart::kLeft, embedding.name + ".out1.weight",
                  tokens, out, accumulate);
  AppendProjected(builder, tensors, table, width, TokenPart::kRight,
                  embedding.name + ".out2.weight", tokens, out, true);
}

}  // namespace antiphon::engine
