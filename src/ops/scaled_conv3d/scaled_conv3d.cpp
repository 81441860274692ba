// Checks, packing and dispatch of the causal convolution in 8 bits.
#include "ops/scaled_conv3d/scaled_conv3d.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/env.h"
#include "cpu/conv_weights.h"
#include "cpu/eight_bits.h"
#include "cpu/widen.h"
#include "cuda/absent_gpu.h"
#include "cuda/conv/conv.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"
#include "tensor/upload_rows.h"

namespace tachy::ops {
namespace {

constexpr Impl<ScaledConv3dArgs> kTable[] = {
    gpu_impl<scaled_conv3d_sm90, scaled_conv3d_why_not_sm90>("sm90"),
    gpu_impl<scaled_conv3d_sm80, scaled_conv3d_why_not_sm80>("sm80"),
    {"bf16", scaled_conv3d_why_not_bf16, scaled_conv3d_bf16},
    {"f32", scaled_conv3d_why_not_f32, scaled_conv3d_f32},
    {"onednn", scaled_conv3d_why_not_onednn, scaled_conv3d_onednn},
    {"ref", nullptr, scaled_conv3d_ref},
};

constexpr int64_t kTaps = 27;

// A GPU's weights are [Co, taps, padded Ci] codes: the tensor cores multiply 32 of them at once.
int64_t padded_channels(int64_t ci) { return (ci + 31) / 32 * 32; }

int64_t codes_bytes(int64_t co, int64_t ci, const Stream& stream) {
  return stream.gpu ? co * kTaps * padded_channels(ci)
                    : cpu::conv_weight_bytes(3, co, ci, 3, 3, kScaledConvCompute);
}

void expect_frames(const char* name, const Tensor& t, std::initializer_list<int64_t> shape, DType dtype,
                   const Stream& stream) {
  const char* op = "scaled_conv3d";
  expect_here(op, name, t, stream);
  expect_shape(op, name, t, shape);
  expect_dtype(op, name, t, dtype);
  expect_contiguous(op, name, t);
}

void check_args(const ScaledConv3dArgs& a, const Stream& stream) {
  const char* op = "scaled_conv3d";
  expect_codes(op, "x", a.x.dtype);
  expect_frames("x", a.x, {-1, -1, -1, -1}, a.x.dtype, stream);
  require(a.y.defined() || (a.gamma.defined() && a.normed.defined()),
          "{}: expected y, or gamma and normed in its place", op);
  require(a.gamma.defined() == a.normed.defined(), "{}: expected gamma and normed together", op);
  const Tensor& result = scaled_conv3d_result(a);
  expect_shape(op, "y", result, {-1, -1, -1, -1});
  const int64_t t = a.x.dim(0), h = a.x.dim(1), w = a.x.dim(2), co = result.dim(3);
  // The dtype of y, of the residual, and of `normed` unless that holds codes.
  const Tensor& wide = a.y.defined() ? a.y : a.residual.defined() ? a.residual : a.normed;
  if (!is_code(wide.dtype)) expect_float_dtype(op, "y", wide, stream);
  if (a.y.defined()) expect_frames("y", a.y, {t, h, w, co}, wide.dtype, stream);
  if (a.cache.defined()) expect_frames("cache", a.cache, {-1, h, w, a.x.dim(3)}, a.x.dtype, stream);
  const int64_t kept = a.cache.defined() ? a.cache.dim(0) : 0;
  require(a.history >= 0 && a.history <= std::min<int64_t>(kept, 2),
          "{}: expected history of at most the cache's {} frames and 2, got {}", op, kept, a.history);
  if (a.bias.defined()) expect_f32(op, "bias", a.bias, {co});
  if (a.residual.defined()) {
    expect_float_dtype(op, "residual", a.residual, stream);
    expect_frames("residual", a.residual, {t, h, w, co}, wide.dtype, stream);
  }
  if (a.gamma.defined()) expect_f32(op, "gamma", a.gamma, {co});
  if (a.normed.defined()) {
    const bool codes = is_code(a.normed.dtype);
    expect_frames("normed", a.normed, {t, h, w, co}, codes ? a.x.dtype : wide.dtype, stream);
    require(!codes || (std::isfinite(a.normed_scale) && a.normed_scale > 0),
            "{}: expected a normed_scale above 0, got {}", op, a.normed_scale);
  }
  expect_dtype(op, "packed", a.packed, DType::u8);
  expect_shape(op, "packed", a.packed, {packed_scaled_conv3d_bytes(co, a.x.dim(3), stream)});
}

// Writes the codes of row `o` of a weight, and returns their scale, as quantize does for a row. `wide` has room for it.
float round_row(const Tensor& weight, int64_t o, float* wide, uint8_t* codes, DType dtype) {
  const int64_t count = weight.numel() / weight.dim(0);
  cpu::widen(weight.flat(o * count, count).data, weight.dtype, count, wide);
  const auto largest = std::bit_cast<float>(cpu::largest_bits(wide, DType::f32, count));
  const float scale = largest == 0 ? 1.0f : std::max(largest / top_code(dtype), 0x1p-126f);
  cpu::round_to_8_bits(wide, DType::f32, count, scale, dtype, std::isfinite(scale), codes);
  return scale;
}

}  // namespace

std::span<const Impl<ScaledConv3dArgs>> scaled_conv3d_table() { return kTable; }

bool scaled_conv3d_runs(const Stream& stream, DType codes) {
  if (!stream.gpu) return true;
  if (cuda::is_absent(stream.gpu)) return stream.gpu->info().capability() >= (codes == DType::i8 ? 80 : 89);
  if constexpr (cuda::kBuilt)
    return scaled_conv3d_on_gpu(stream, codes);
  else
    return false;
}

bool scaled_conv3d_normalises(const ScaledConv3dArgs& args, const Stream& stream) {
  static const bool off = env_string("TACHY_CONV_NORM", "") == "0";
  if (off || stream.without.has(Optimisation::conv_norms)) return false;
  if (cuda::is_absent(stream.gpu))
    return stream.gpu->info().major == 9 && args.x.dtype == DType::f8_e4m3 &&
           args.gamma.dim(0) <= cuda::kConvMostNormed;
  return choose<ScaledConv3dArgs>("scaled_conv3d", kTable, args, stream) != nullptr;
}

void scaled_conv3d(const ScaledConv3dArgs& args, Stream& stream) {
  check_args(args, stream);
  const int64_t values = scaled_conv3d_result(args).numel();
  if (values == 0) return;
  if (count_convolution("scaled_conv3d", args.x.dtype, values * kTaps * args.x.dim(3),
                        {args.x, args.packed, args.residual, args.y, args.normed}, stream))
    return;
  pick<ScaledConv3dArgs>("scaled_conv3d", kTable, args, stream).run(args, stream);
}

int64_t packed_scaled_conv3d_bytes(int64_t co, int64_t ci, const Stream& stream) {
  return static_cast<int64_t>(align_up(static_cast<size_t>(codes_bytes(co, ci, stream)))) +
         co * static_cast<int64_t>(sizeof(float));
}

void pack_scaled_conv3d_weight(const Tensor& weight, float x_scale, const Tensor& packed, Stream& stream,
                               DType dtype) {
  const char* op = "pack_scaled_conv3d_weight";
  expect_shape(op, "weight", weight, {-1, -1, 3, 3, 3});
  require(weight.contiguous() && cpu::widens(weight.dtype),
          "{}: expected a contiguous weight of f32, f16, bf16 or f8, got {}", op, dtype_name(weight.dtype));
  expect_codes(op, "codes of", dtype);
  require(std::isfinite(x_scale) && x_scale > 0, "{}: expected a scale of x above 0, got {}", op, x_scale);
  const int64_t co = weight.dim(0), ci = weight.dim(1), row = ci * kTaps;
  expect_shape(op, "packed", packed, {packed_scaled_conv3d_bytes(co, ci, stream)});
  if (stream.measuring()) return;
  std::vector<float> scales(static_cast<size_t>(co));
  const int64_t scales_at = packed.numel() - co * static_cast<int64_t>(sizeof(float));
  if (!stream.gpu) {
    std::vector<uint8_t> codes(static_cast<size_t>(co * row));
    parallel_ranges(stream, co, 8, [&](int64_t begin, int64_t end, int) {
      const auto wide = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(row));
      for (int64_t o = begin; o < end; ++o)
        scales[static_cast<size_t>(o)] =
            x_scale * round_row(weight, o, wide.get(), codes.data() + o * row, dtype);
    });
    cpu::pack_conv_weight(Tensor(codes.data(), dtype, weight.shape()), packed.data, kScaledConvCompute,
                          *stream.pool);
    std::memcpy(static_cast<char*>(packed.data) + scales_at, scales.data(), scales.size() * sizeof(float));
    return;
  }
  const int64_t padded = padded_channels(ci);
  const auto make = [&](int64_t first, int64_t count, void* out) {
    const auto wide = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(row));
    const auto codes = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(row));
    for (int64_t i = 0; i < count; ++i) {
      const float scale = round_row(weight, first + i, wide.get(), codes.get(), dtype);
      std::atomic_ref(scales[static_cast<size_t>(first + i)])
          .store(x_scale * scale, std::memory_order_relaxed);
      uint8_t* const taps = static_cast<uint8_t*>(out) + i * kTaps * padded;
      if (padded > ci) std::memset(taps, 0, static_cast<size_t>(kTaps * padded));
      cuda::gather_taps(codes.get(), ci, kTaps, padded, taps);
    }
  };
  upload_rows(*stream.gpu, packed.data, co, static_cast<size_t>(kTaps * padded), make, *stream.pool);
  stream.gpu->upload(static_cast<char*>(packed.data) + scales_at, scales.data(),
                     scales.size() * sizeof(float));
}

}  // namespace tachy::ops
