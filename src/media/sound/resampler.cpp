#include "media/sound/resampler.h"

#include <soxr.h>

#include <algorithm>

#include "base/error.h"

namespace tachy {
namespace {

constexpr size_t kPiece = 4096;  // largest number of samples that one call returns

// soxr's errors are strings; null means success.
void check_soxr(soxr_error_t error, const char* what) {
  check(error == nullptr, ErrorCode::internal, "resampling: soxr cannot {}: {}", what, soxr_strerror(error));
}

void check_rate(const char* name, int rate) {
  require(rate >= kMinSampleRate && rate <= kMaxSampleRate, "resampling: `{}`: expected {} to {} Hz, got {}",
          name, kMinSampleRate, kMaxSampleRate, rate);
}

}  // namespace

struct Resampler::Engine {
  soxr_t soxr = nullptr;
  ~Engine() { soxr_delete(soxr); }
};

int64_t resampled_length(int64_t samples, int from, int to) {
  // This is computed in two parts, so that no product exceeds 64 bits.
  return samples / from * to + (samples % from * to + from - 1) / from;
}

Resampler::Resampler(int from, int to) : from_(from), to_(to) {
  check_rate("from", from);
  check_rate("to", to);
  if (from == to) return;
  engine_ = std::make_unique<Engine>();
  const soxr_io_spec_t floats = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);  // 20 bits, linear phase
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
  soxr_error_t error = nullptr;
  engine_->soxr = soxr_create(from, to, 1, &error, &floats, &quality, &runtime);
  check_soxr(error, "start");
}

Resampler::~Resampler() = default;

void Resampler::process(const float* samples, size_t count, std::vector<float>& out) {
  for (;;) {
    const size_t before = out.size();
    out.resize(before + kPiece);
    size_t used = 0, made = 0;
    // A call without input says that no more input will come.
    check_soxr(soxr_process(engine_->soxr, samples, count, samples ? &used : nullptr, out.data() + before,
                            kPiece, &made),
               "resample");
    out.resize(before + made);
    given_ += int64_t(made);
    if (samples != nullptr) samples += used, count -= used;
    if (made < kPiece && count == 0) return;
    check(made > 0 || used > 0, ErrorCode::internal, "resampling: soxr neither takes nor gives samples");
  }
}

void Resampler::push(std::span<const float> samples, std::vector<float>& out) {
  taken_ += int64_t(samples.size());
  if (!engine_) {
    out.insert(out.end(), samples.begin(), samples.end());
    return;
  }
  if (!samples.empty()) process(samples.data(), samples.size(), out);
}

void Resampler::finish(std::vector<float>& out) {
  if (!engine_ || taken_ == 0) return;
  process(nullptr, 0, out);
  const int64_t missing = resampled_length(taken_, from_, to_) - given_;
  check(int64_t(out.size()) + missing >= 0, ErrorCode::internal, "resampling: {} samples too many", -missing);
  out.resize(size_t(int64_t(out.size()) + missing), 0.0f);
  engine_.reset();
}

std::vector<float> resample(std::span<const float> samples, int from, int to) {
  std::vector<float> out;
  Resampler resampler(from, to);
  out.reserve(size_t(resampled_length(int64_t(samples.size()), from, to)) + kPiece);
  resampler.push(samples, out);
  resampler.finish(out);
  return out;
}

}  // namespace tachy
