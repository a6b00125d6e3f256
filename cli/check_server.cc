// Golden run of the whole live loop: PCM, codec, LM, codec, PCM, in the order of Moshi's server.
#include <cstring>

#include "cli/check.h"
#include "cli/lm_trace.h"

namespace antiphon::cli {

using engine::Model;
using engine::ModelOptions;
using kernels::Row;
using kernels::Stage;

void CheckServer(const Checkpoints& codec, const Checkpoints& lm_checkpoint, const GoldenFile& io,
                 CheckReport& report) {
  const engine::LmConfig& lm = *lm_checkpoint->lm_config();
  ModelOptions codec_options;
  codec_options.with_lm = false;
  codec_options.codebooks = std::max(lm.user_codes(), lm.agent_codes());
  const std::unique_ptr<Model> mimi = MakeCheckedModel(codec, codec_options, report.options());
  ModelOptions lm_options;
  lm_options.with_codec = false;
  lm_options.prefill_rows = 0;
  const std::unique_ptr<Model> model =
      MakeCheckedModel(lm_checkpoint, lm_options, report.options());

  const std::vector<float> pcm_in = io.FloatsOf("pcm_in");
  const auto frame = static_cast<size_t>(mimi->frame_samples());
  const auto users = static_cast<size_t>(lm.user_codes());
  const size_t chunks = pcm_in.size() / frame;
  std::vector<int32_t> user(users * chunks), valid;
  std::vector<float> pcm_out;
  LmTrace trace(*model, lm);
  int64_t encoded = 0, decoded = 0;
  for (size_t t = 0; t < chunks; ++t) {
    Row row;
    row.position = encoded;
    std::memcpy(mimi->pcm_in(0), pcm_in.data() + t * frame, frame * sizeof(float));
    mimi->rows(Stage::kEncode).rows[0] = row;
    mimi->rows(Stage::kEncode).count = 1;
    mimi->rows(Stage::kDecode).count = 0;
    mimi->Run();
    encoded = t == 0 ? 0 : encoded + 1;  // the codec is reset after the first chunk

    trace.Row0(static_cast<int64_t>(t));
    for (size_t u = 0; u < users; ++u) {
      user[u * chunks + t] = mimi->user_codes(0)[u];
      model->given(0)[static_cast<size_t>(1 + lm.dep_q) + u] = mimi->user_codes(0)[u];
    }
    model->Run();
    trace.Record(0, 1 + lm.dep_q);
    const bool has_output = static_cast<int>(t) + 1 > lm.max_delay();
    valid.push_back(has_output ? 1 : 0);
    if (!has_output) continue;
    row.position = decoded++;
    std::memcpy(mimi->agent_codes(0), model->agent_codes(0),
                static_cast<size_t>(lm.agent_codes()) * sizeof(int32_t));
    mimi->rows(Stage::kEncode).count = 0;
    mimi->rows(Stage::kDecode).rows[0] = row;
    mimi->rows(Stage::kDecode).count = 1;
    mimi->Run();
    pcm_out.insert(pcm_out.end(), mimi->pcm_out(0), mimi->pcm_out(0) + frame);
  }
  report.Tokens(io.name + ".user_codes", io.IntsOf("user_codes"), user);
  trace.Compare(io, report);
  report.Tokens(io.name + ".out_valid", io.IntsOf("out_valid"), valid);
  report.Floats(io.name + ".pcm_out", io.FloatsOf("pcm_out"), pcm_out);
}

}  // namespace antiphon::cli
