#include "audio/resampler.h"

#include <soxr.h>

#include <cmath>

namespace antiphon::audio {
namespace {

constexpr size_t kChunk = 4096;

void RequireRate(int rate_hz) {
  if (rate_hz >= 8000 && rate_hz <= 192000) return;
  throw AudioError("resampler: expected a sample rate from 8000 to 192000 Hz, found " +
                   std::to_string(rate_hz));
}

struct Delete {
  void operator()(soxr_t soxr) const { soxr_delete(soxr); }
};

}  // namespace

struct Resampler::State {
  std::unique_ptr<soxr, Delete> stream;
  bool same = false;  // equal rates: samples pass unchanged
  float chunk[kChunk];
};

Resampler::Resampler(int from_hz, int to_hz) : state_(std::make_unique<State>()) {
  RequireRate(from_hz);
  RequireRate(to_hz);
  state_->same = from_hz == to_hz;
  if (state_->same) return;
  const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  soxr_error_t error = nullptr;
  state_->stream.reset(soxr_create(from_hz, to_hz, 1, &error, &io, &quality, nullptr));
  if (error != nullptr) throw AudioError(std::string("resampler: ") + error);
}

Resampler::~Resampler() = default;
Resampler::Resampler(Resampler&&) noexcept = default;
Resampler& Resampler::operator=(Resampler&&) noexcept = default;

void Resampler::Process(std::span<const float> in, std::vector<float>* out) {
  if (state_->same) {
    out->insert(out->end(), in.begin(), in.end());
  } else if (!in.empty()) {  // to soxr, no input means the end
    Run(in.data(), in.size(), out);
  }
}

void Resampler::Flush(std::vector<float>* out) {
  if (state_->same) return;
  Run(nullptr, 0, out);
  soxr_clear(state_->stream.get());
}

void Resampler::Run(const float* in, size_t count, std::vector<float>* out) {
  size_t used = 0, made = 0;
  do {
    size_t taken = 0;
    const float* from = in == nullptr ? nullptr : in + used;
    const soxr_error_t error = soxr_process(state_->stream.get(), from, count - used, &taken,
                                            state_->chunk, kChunk, &made);
    if (error != nullptr) throw AudioError(std::string("resampler: ") + error);
    used += taken;
    out->insert(out->end(), state_->chunk, state_->chunk + made);
  } while (used < count || made == kChunk);
}

std::vector<float> Resample(std::span<const float> in, int from_hz, int to_hz) {
  Resampler resampler(from_hz, to_hz);
  const double ratio = static_cast<double>(to_hz) / from_hz;
  const auto length = static_cast<size_t>(std::llround(static_cast<double>(in.size()) * ratio));
  std::vector<float> out;
  out.reserve(length + kChunk);
  resampler.Process(in, &out);
  resampler.Flush(&out);
  out.resize(length, 0.0F);
  return out;
}

}  // namespace antiphon::audio
