#include "pipelines/first_frame_denoiser.h"

#include "ops/elementwise/elementwise.h"

namespace tachy {

FirstFrameDenoiser::FirstFrameDenoiser(const ClipInput& in, const Tensor& frame, Stream& stream)
    : ClipDenoiser(in, {0.0}, stream), frame_(frame) {
  // Tokens of latent frame 0 point at row 1 (timestep 0), all others at row 0.
  std::vector<int32_t> row(in.texts.size() * static_cast<size_t>(grid().tokens()));
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<int64_t>(i) % grid().tokens() < grid().rows * grid().columns ? 1 : 0;
  row_ = store_.uploaded(row.data(), DType::i32, {static_cast<int64_t>(row.size())});
}

void FirstFrameDenoiser::put_given(const Tensor& x) const {
  ops::copy({.x = frame_, .y = x.slice(1, 0, 1)}, stream_);
}

}  // namespace tachy
