// Golden runs of the codec: streaming encode and decode frame by frame, the live server's order,
// and the one-shot evaluation.
#include <cstring>
#include <utility>

#include "cli/check.h"

namespace antiphon::cli {

using engine::AttentionWindow;
using engine::Model;
using engine::ModelOptions;
using kernels::Row;
using kernels::Stage;

namespace {

void OneRow(Model& model, Stage stage, int64_t position) {
  Row row;
  row.position = position;
  model.rows(stage).rows[0] = row;
  model.rows(stage).count = 1;
}

// [levels, frames] row-major from codes collected frame by frame.
std::vector<int32_t> ByLevel(const std::vector<int32_t>& by_frame, size_t levels) {
  const size_t frames = by_frame.size() / levels;
  std::vector<int32_t> out(by_frame.size());
  for (size_t f = 0; f < frames; ++f) {
    for (size_t q = 0; q < levels; ++q) out[q * frames + f] = by_frame[f * levels + q];
  }
  return out;
}

struct CodecRun {
  std::vector<int32_t> codes;  // [frames, levels]
  std::vector<float> latent, seanet, transformer;
};

class CodecCheck {
 public:
  CodecCheck(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report)
      : checkpoint_(checkpoint), io_(io), report_(report), pcm_(io.FloatsOf("pcm_in")) {
    levels_ = static_cast<size_t>(io.tensors->Get("codes").shape[0]);
  }

  void Run() {
    const bool personaplex = io_.name.find("personaplex") != std::string::npos;
    const AttentionWindow window =
        personaplex ? AttentionWindow::kDropOldest : AttentionWindow::kStreaming;
    std::unique_ptr<Model> model = MakeModel(window);
    const CodecRun run = Encode(*model, false);
    Codes("codes", run);
    Compare("latent", run.latent);
    Compare("enc_seanet", run.seanet);
    Compare("enc_transformer", run.transformer);
    Decode(*model);
    if (io_.Has("codes_server")) Codes("codes_server", Encode(*model, true));
    if (io_.Has("codes_batch")) {
      model = MakeModel(AttentionWindow::kOneShot);
      const CodecRun batch = Encode(*model, false);
      Codes("codes_batch", batch);
      Compare("latent_batch", batch.latent);
    }
  }

 private:
  std::unique_ptr<Model> MakeModel(AttentionWindow window) const {
    ModelOptions options;
    options.with_lm = false;
    options.codebooks = static_cast<int>(levels_);
    options.window = window;
    return MakeCheckedModel(checkpoint_, options, report_.options());
  }

  void Codes(const std::string& name, const CodecRun& run) {
    report_.Tokens(io_.name + "." + name, io_.IntsOf(name), ByLevel(run.codes, levels_));
  }
  void Compare(const std::string& name, const std::vector<float>& found) {
    if (io_.Has(name)) report_.Floats(io_.name + "." + name, io_.FloatsOf(name), found);
  }

  CodecRun Encode(Model& model, bool reset_after_first) {
    CodecRun run;
    const TapRecorder taps(model);
    const auto frame = static_cast<size_t>(model.frame_samples());
    int64_t position = 0;
    model.rows(Stage::kDecode).count = 0;
    for (size_t begin = 0; begin + frame <= pcm_.size(); begin += frame) {
      std::memcpy(model.pcm_in(0), pcm_.data() + begin, frame * sizeof(float));
      OneRow(model, Stage::kEncode, position);
      model.Run();
      position = begin == 0 && reset_after_first ? 0 : position + 1;
      run.codes.insert(run.codes.end(), model.user_codes(0), model.user_codes(0) + levels_);
      taps.Floats("latent", 0, &run.latent);
      taps.Floats("enc_seanet", 0, &run.seanet);
      taps.Floats("enc_transformer", 0, &run.transformer);
    }
    return run;
  }

  // Decodes the golden codes, so that an encoder's fault does not hide the decoder's.
  void Decode(Model& model) {
    const std::vector<int32_t> codes = io_.IntsOf("codes");
    const size_t frames = codes.size() / levels_;
    const auto samples = static_cast<size_t>(model.frame_samples());
    std::vector<float> pcm, latent, upsampled, transformer;
    const TapRecorder taps(model);
    model.rows(Stage::kEncode).count = 0;
    for (size_t f = 0; f < frames; ++f) {
      for (size_t q = 0; q < levels_; ++q) model.agent_codes(0)[q] = codes[q * frames + f];
      OneRow(model, Stage::kDecode, static_cast<int64_t>(f));
      model.Run();
      pcm.insert(pcm.end(), model.pcm_out(0), model.pcm_out(0) + samples);
      taps.Floats("dec_latent", 0, &latent);
      taps.Floats("dec_upsampled", 0, &upsampled);
      taps.Floats("dec_transformer", 0, &transformer);
    }
    Compare("dec_latent", latent);
    Compare("dec_upsampled", upsampled);
    Compare("dec_transformer", transformer);
    Compare("pcm_out", pcm);
  }

  const Checkpoints& checkpoint_;
  const GoldenFile& io_;
  CheckReport& report_;
  std::vector<float> pcm_;
  size_t levels_ = 0;
};

}  // namespace

void CheckCodec(const Checkpoints& checkpoint, const GoldenFile& io, CheckReport& report) {
  CodecCheck(checkpoint, io, report).Run();
}

}  // namespace antiphon::cli
