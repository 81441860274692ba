// What Wan's video VAE computes in 8 bits:
//   channel_norm_codes:  the norm over the channels of a position, with its activation, as codes with one scale
//   scaled_conv3d:       a causal 3x3x3 convolution of codes (ops/scaled_conv3d), which gives numbers with a residual
//                        added, or the next norm's codes
// Codes come and go as i8, and those of e4m3 as their bytes. Activations are frames [clips · frames, C, H, W] with
// channels last. A weight comes as codes [Co, 27, Ci rounded up to 32], taps before channels, with a scale for each
// of its output channels that holds the scale of x, too. The op's own layout of a weight differs between devices, so it
// is made in scratch in each call: 4 MB at most, beside gigabytes of activations. There are no gradients.
#include <algorithm>
#include <cstring>

#include "bind/channels.h"
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/codes.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"
#include "tensor/transfer.h"

namespace tachy::python {
namespace {

constexpr int64_t kTaps = 27, kGroup = 32;
// Values of the largest operand in one call of the op. Frames are then taken in pieces, which gives the same bits.
constexpr int64_t kMostValues = int64_t{1} << 28;

DType code_dtype(bool e4m3) { return e4m3 ? DType::f8_e4m3 : DType::i8; }
Tensor rows(const Tensor& last) { return last.view({-1, last.dim(-1)}); }

Tensor as_codes(Tensor t, bool e4m3) {
  t.dtype = code_dtype(e4m3);
  return t;
}

// Describes frames [frames, C, H, W] that lie with channels last.
Result frames_result(DType dtype, int64_t frames, int64_t channels, int64_t height, int64_t width) {
  Result r = Result::contiguous(dtype, {frames, channels, height, width});
  const int64_t c = std::max<int64_t>(1, channels), w = std::max<int64_t>(1, width);
  r.strides[1] = 1, r.strides[3] = c, r.strides[2] = c * w;
  r.strides[0] = c * w * std::max<int64_t>(1, height);
  return r;
}

void expect_last(const char* op, const char* name, const Tensor& t) {
  require(channels_last(t).contiguous(), "{}: expected {} {} with its channels last", op, name, shown(t));
}

void expect_scale(const char* op, const char* name, double scale) {
  require(scale > 0 && scale < 1e30, "{}: expected a {} above 0, got {}", op, name, scale);
}

Results norm_results(Inputs in) {
  const char* op = "channel_norm_codes";
  const Tensor& x = in[0].tensor;
  expect_value(op, "x", x);
  require(x.rank == 4 && x.dtype != DType::f64,
          "{}: expected x [frames, channels, height, width] f32, f16 or bf16, got {} {}", op, shown(x),
          dtype_name(x.dtype));
  expect_vector(op, "gamma", in[1].tensor, x.dim(1), x);
  expect_scale(op, "scale", in[2].number);
  return {frames_result(DType::i8, x.dim(0), x.dim(1), x.dim(2), x.dim(3))};
}

void run_norm(Inputs in, std::span<const Tensor> out, Context& context) {
  expect_last("channel_norm_codes", "out", out[0]);
  const Tensor x = channels_last(in[0].tensor), y = as_codes(channels_last(out[0]), in[4].integer != 0);
  ops::ChannelNormArgs args{.gamma = parameter(in[1].tensor, x.dtype, context),
                            .silu = in[3].integer != 0,
                            .y_scale = static_cast<float>(in[2].number)};
  const auto norm = [&](const Tensor& from, const Tensor& to) {
    args.x = rows(from), args.y = rows(to);
    ops::channel_norm(args, context.stream());
  };
  if (x.dtype == work_dtype(x.dtype, context) && x.contiguous()) return norm(x, y);
  Tensor frame = x;
  frame.dims[0] = 1;
  const Tensor slab = context.scratch(work_dtype(x.dtype, context), frame.shape());
  for (int64_t n = 0; n < x.dim(0); ++n) {
    convert(x.slice(0, n, n + 1), slab, context);
    norm(slab, y.slice(0, n, n + 1));
  }
}

struct Call {
  const Tensor &x, &codes, &scales, &bias, &residual, &gamma;
  int64_t frames;
  float next_scale;
  bool silu, e4m3;
  explicit Call(Inputs in)
      : x(in[0].tensor),
        codes(in[1].tensor),
        scales(in[2].tensor),
        bias(in[3].tensor),
        residual(in[4].tensor),
        gamma(in[5].tensor),
        frames(in[6].integer),
        next_scale(static_cast<float>(in[7].number)),
        silu(in[8].integer != 0),
        e4m3(in[9].integer != 0) {}
  int64_t co() const { return codes.dim(0); }
};

Results results(Inputs in) {
  const char* op = "scaled_conv3d";
  const Call c(in);
  const Tensor& x = c.x;
  require(x.dtype == DType::i8 && x.rank == 4 && x.numel() > 0,
          "{}: expected x [clips · frames, channels, height, width] of codes i8, got {} {}", op, shown(x),
          dtype_name(x.dtype));
  expect_last(op, "x", x);
  require(c.frames >= 1 && x.dim(0) % c.frames == 0, "{}: expected frames that divide {}, got {}", op,
          x.dim(0), c.frames);
  const int64_t padded = (x.dim(1) + kGroup - 1) / kGroup * kGroup;
  require(c.codes.dtype == DType::i8 && c.codes.rank == 3 && c.codes.dim(0) >= 1 && c.codes.dim(1) == kTaps &&
              c.codes.dim(2) == padded && c.codes.contiguous(),
          "{}: expected codes i8 [out, 27, {}] contiguous beside {} channels, got {} {}", op, padded,
          x.dim(1), shown(c.codes), dtype_name(c.codes.dtype));
  expect_vector(op, "scales", c.scales, c.co(), x);
  require(c.scales.dtype == DType::f32, "{}: expected scales f32, got {}", op, dtype_name(c.scales.dtype));
  expect_vector(op, "bias", c.bias, c.co(), x);
  expect_vector(op, "gamma", c.gamma, c.co(), x);
  const bool gpu = x.device.type == DeviceType::cuda;
  if (c.residual.defined()) {
    const Result like = frames_result(DType::f32, x.dim(0), c.co(), x.dim(2), x.dim(3));
    const std::span<const int64_t> dims(like.dims, 4);
    require(std::ranges::equal(c.residual.shape(), dims), "{}: expected residual {}, got {}", op, shown(dims),
            shown(c.residual));
    expect_value(op, "residual", c.residual);
    require(c.residual.dtype != DType::f64 && (!gpu || c.residual.dtype == DType::bf16),
            "{}: expected residual {}, got {}", op, gpu ? "bf16" : "f32, f16 or bf16",
            dtype_name(c.residual.dtype));
  }
  if (c.gamma.defined()) expect_scale(op, "next_scale", c.next_scale);
  const DType made = c.gamma.defined() ? DType::i8 : c.residual.defined() ? c.residual.dtype : DType::bf16;
  return {frames_result(made, x.dim(0), c.co(), x.dim(2), x.dim(3))};
}

// The weight in the op's own form, with its scales behind the codes.
Tensor packed_weight(const Call& c, Context& context) {
  Stream& stream = context.stream();
  const int64_t co = c.co(), ci = c.x.dim(1), padded = c.codes.dim(2),
                bytes = ops::packed_scaled_conv3d_bytes(co, ci, stream);
  const Tensor packed = context.scratch(DType::u8, {bytes});
  if (!context.on_gpu()) {
    // Codes whose largest in a row is the top code keep their values when they are rounded again.
    const Tensor wide = context.scratch(DType::f32, {co, ci, 3, 3, 3});
    const auto* from = static_cast<const uint8_t*>(c.codes.data);
    for (int64_t o = 0; o < co; ++o)
      for (int64_t tap = 0; tap < kTaps; ++tap)
        for (int64_t i = 0; i < ci; ++i) {
          const uint8_t code = from[(o * kTaps + tap) * padded + i];
          wide.as<float>()[(o * ci + i) * kTaps + tap] =
              c.e4m3 ? to_float(f8_e4m3_t{code}) : static_cast<float>(static_cast<int8_t>(code));
        }
    ops::pack_scaled_conv3d_weight(wide, 1, packed, stream, code_dtype(c.e4m3));
  } else {
    copy_bytes(c.codes.view({-1}), packed.slice(0, 0, co * kTaps * padded), stream);
  }
  const Tensor scales = contiguous_as(c.scales, DType::f32, context);
  copy_bytes(scales, packed.slice(0, bytes - scales.bytes(), bytes), stream);
  return packed;
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Call c(in);
  expect_last("scaled_conv3d", "out", out[0]);
  const Tensor x = as_codes(channels_last(c.x), c.e4m3), y = channels_last(out[0]);
  const Tensor residual = c.residual.defined() ? channels_last(c.residual) : Tensor();
  const DType work = context.on_gpu() ? DType::bf16 : DType::f32;
  ops::ScaledConv3dArgs args{
      .packed = packed_weight(c, context), .bias = parameter(c.bias, DType::f32, context), .silu = c.silu};
  const Tensor gamma = parameter(c.gamma, DType::f32, context);
  const int64_t of_frame = x.dim(1) * x.dim(2) * std::max(x.dim(3), c.co());
  const int64_t piece = std::clamp<int64_t>(kMostValues / of_frame, 1, c.frames);
  Tensor numbers;  // beside results that the op cannot write itself
  const auto room = [&](int64_t frames) {
    if (!numbers.defined()) numbers = context.scratch(work, {piece, x.dim(1), x.dim(2), c.co()});
    return numbers.slice(0, 0, frames);
  };
  for (int64_t first = 0; first < x.dim(0); first += c.frames)
    for (int64_t t = 0; t < c.frames; t += piece) {
      const int64_t begin = first + t, end = first + std::min(c.frames, t + piece);
      const Tensor to = y.slice(0, begin, end);
      args.x = x.slice(0, begin, end), args.history = std::min<int64_t>(t, 2);
      args.cache = args.history > 0 ? x.slice(0, begin - args.history, begin) : Tensor();
      args.gamma = args.normed = args.residual = args.y = Tensor();
      if (residual.defined()) {
        args.residual = residual.slice(0, begin, end);
        if (args.residual.dtype != work || !args.residual.contiguous()) {
          const Tensor copy = room(end - begin);
          convert(args.residual, copy, context);
          args.residual = copy;
        }
      }
      if (gamma.defined()) {
        args.gamma = gamma, args.normed = as_codes(to, c.e4m3), args.normed_scale = c.next_scale;
        if (!ops::scaled_conv3d_normalises(args, context.stream())) {  // then the norm is a pass of its own
          args.gamma = args.normed = Tensor(), args.y = room(end - begin);
          context.compute([&](Stream& stream) { ops::scaled_conv3d(args, stream); });
          ops::channel_norm({.x = rows(args.y),
                             .gamma = gamma,
                             .silu = c.silu,
                             .y = rows(as_codes(to, c.e4m3)),
                             .y_scale = c.next_scale},
                            context.stream());
          continue;
        }
      } else {
        args.y = to.dtype == work ? to : room(end - begin);
      }
      context.compute([&](Stream& stream) { ops::scaled_conv3d(args, stream); });
      if (args.y.defined() && to.dtype != work) convert(args.y, to, context);
    }
}

}  // namespace

const Op kChannelNormCodes{"channel_norm_codes",
                           "(Tensor x, Tensor gamma, float scale, bool silu, bool e4m3) -> Tensor",
                           norm_results, run_norm};
const Op kScaledConv3d{
    "scaled_conv3d",
    "(Tensor x, Tensor codes, Tensor scales, Tensor? bias, Tensor? residual, Tensor? gamma, int frames, "
    "float next_scale, bool silu, bool e4m3) -> Tensor",
    results, run};

}  // namespace tachy::python
