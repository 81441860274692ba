#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void channel_norm_cuda(const ChannelNormArgs& args, Stream& stream);  // channel_norm_sm80.cu

std::span<const Impl<ChannelNormArgs>> channel_norm_table() {
  static constexpr Impl<ChannelNormArgs> table[] = {gpu_impl<channel_norm_cuda>("cuda"),
                                                    {"cpu", nullptr, channel_norm_cpu},
                                                    {"ref", nullptr, channel_norm_ref}};
  return table;
}

void channel_norm(const ChannelNormArgs& a, Stream& stream) {
  const char* op = "channel_norm";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  expect_f32(op, "gamma", a.gamma, {c});
  expect_float(op, "y", a.y, {p, c}, stream);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "y", a.y);
  expect_same_dtype(op, "y", a.y, a.x);
  const auto& impl = pick<ChannelNormArgs>(op, channel_norm_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
