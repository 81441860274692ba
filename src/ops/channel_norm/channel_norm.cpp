#include <cmath>

#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void channel_norm_cuda(const ChannelNormArgs& args, Stream& stream);        // channel_norm_sm80.cu
void channel_norm_codes_cuda(const ChannelNormArgs& args, Stream& stream);  // channel_norm_codes_sm80.cu

std::optional<Refusal> channel_norm_why_not_numbers(const ChannelNormArgs& a, const Stream&) {
  if (is_code(a.y.dtype)) return Refusal::arguments("it does not make codes");
  return std::nullopt;
}
std::optional<Refusal> channel_norm_why_not_codes(const ChannelNormArgs& a, const Stream&) {
  if (!is_code(a.y.dtype)) return Refusal::arguments("it makes codes");
  return std::nullopt;
}

std::span<const Impl<ChannelNormArgs>> channel_norm_table() {
  static constexpr Impl<ChannelNormArgs> table[] = {
      gpu_impl<channel_norm_cuda, channel_norm_why_not_numbers>("cuda"),
      gpu_impl<channel_norm_codes_cuda, channel_norm_why_not_codes>("codes"),
      {"cpu", nullptr, channel_norm_cpu},
      {"ref", nullptr, channel_norm_ref}};
  return table;
}

void channel_norm(const ChannelNormArgs& a, Stream& stream) {
  const char* op = "channel_norm";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  expect_f32(op, "gamma", a.gamma, {c});
  expect_contiguous(op, "x", a.x);
  expect_shape(op, "y", a.y, {p, c});
  expect_here(op, "y", a.y, stream);
  expect_contiguous(op, "y", a.y);
  if (!is_code(a.y.dtype)) expect_same_dtype(op, "y", a.y, a.x);
  require(std::isfinite(a.y_scale) && a.y_scale > 0, "{}: expected a y_scale above 0, got {}", op, a.y_scale);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<ChannelNormArgs>(op, channel_norm_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
