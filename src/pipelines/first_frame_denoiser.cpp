#include "pipelines/first_frame_denoiser.h"

#include "ops/elementwise/elementwise.h"

namespace tachy {

FirstFrameDenoiser::FirstFrameDenoiser(const ClipInput& in, const Tensor& frame, Stream& stream)
    : ClipDenoiser(in, {0.0}, stream), frame_(frame) {
  // Tokens of latent frame 0 point at row 1 (timestep 0), all others at row 0.
  std::vector<int32_t> row(in.texts.size() * static_cast<size_t>(grid().tokens()));
  const int64_t tokens = grid().tokens();
  for (int64_t first = 0; first < static_cast<int64_t>(row.size()); first += tokens)
    for (int64_t i = 0; i < grid().rows * grid().columns; ++i)
      row[static_cast<size_t>(first + grid().place_of(i))] = 1;
  row_ = store_.uploaded(row.data(), DType::i32, {static_cast<int64_t>(row.size())});
}

void FirstFrameDenoiser::put_given(const Tensor& x) const {
  ops::copy({.x = frame_, .y = x.slice(1, 0, 1)}, stream_);
}

}  // namespace tachy
