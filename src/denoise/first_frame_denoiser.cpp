#include "denoise/first_frame_denoiser.h"

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

FirstFrameDenoiser::FirstFrameDenoiser(const ClipInput& in, const Tensor& frame, Stream& stream)
    : ClipDenoiser(in, {0.0}, stream), frame_(frame), branches_(static_cast<int64_t>(in.texts.size())) {
  row_ = store_.allocate(DType::i32, {branches_ * grid().tokens()});
  FirstFrameDenoiser::place_first(0);
}

// Tokens of the given frame point at row 1 (timestep 0), all others at row 0.
void FirstFrameDenoiser::place_first(int64_t frame) {
  if (frame == place_) return;
  place_ = frame;
  const int64_t tokens = grid().tokens(), of_frame = grid().rows * grid().columns;
  std::vector<int32_t> row(static_cast<size_t>(branches_ * tokens));
  for (int64_t first = 0; first < branches_ * tokens && frame >= 0; first += tokens)
    for (int64_t i = frame * of_frame; i < (frame + 1) * of_frame; ++i)
      row[static_cast<size_t>(first + grid().place_of(i))] = 1;
  upload(row.data(), row_, stream_);
}

void FirstFrameDenoiser::put_given(const Tensor& x) const {
  if (place_ >= 0) ops::copy({.x = frame_, .y = x.slice(1, place_, place_ + 1)}, stream_);
}

}  // namespace tachy
