// Checks, packing and dispatch of the causal convolution, and the frame cache that it reads.
#include "ops/conv3d/conv3d.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "cpu/conv_weights.h"
#include "cpu/widen.h"
#include "cuda/absent_gpu.h"
#include "cuda/conv/conv.h"
#include "cuda/gpu.h"
#include "cuda/gpu_family.h"
#include "ops/codes.h"
#include "ops/conv3d/conv3d_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Impl<CausalConv3dArgs> kTable[] = {
    gpu_impl<causal_conv3d_head, causal_conv3d_why_not_head>("head"),
    gpu_impl<causal_conv3d_stem, causal_conv3d_why_not_stem>("stem"),
    gpu_impl<causal_conv3d_winograd, causal_conv3d_why_slower_winograd>("winograd"),
    gpu_impl<causal_conv3d_sm90, causal_conv3d_why_not_sm90>("sm90"),
    gpu_impl<causal_conv3d_cudnn, causal_conv3d_why_slower_cudnn>("cudnn"),
    gpu_impl<causal_conv3d_sm80, causal_conv3d_why_not_sm80>("sm80"),
    gpu_impl<causal_conv3d_simple, causal_conv3d_why_not_simple>("simple"),
    gpu_impl<causal_conv3d_tf32, causal_conv3d_why_not_tf32>(
        "tf32"),  // not compared with the definition on a GPU yet
    gpu_impl<causal_conv3d_cudnn, causal_conv3d_why_not_cudnn>("cudnn_any"),  // for the op runner
    gpu_impl<causal_conv3d_winograd, causal_conv3d_why_not_winograd>("winograd_any"),
    {"bf16", causal_conv3d_why_not_bf16, causal_conv3d_bf16},
    {"f32", causal_conv3d_why_not_f32, causal_conv3d_f32},
    {"onednn", causal_conv3d_why_not_onednn, causal_conv3d_onednn},
    {"ref", nullptr, causal_conv3d_ref},
};

void expect_dense(const char* op, const char* name, const Tensor& t, std::initializer_list<int64_t> shape,
                  DType dtype) {
  expect_shape(op, name, t, shape);
  expect_dtype(op, name, t, dtype);
  require(t.contiguous(), "{}: expected a contiguous {}", op, name);
}

// For each tap in time and row, half the sum and half the alternating sum of the row's three weights.
constexpr int64_t kWinogradTaps = 18;

bool packs_winograd(const Stream& stream, DType dtype, int64_t co, int64_t ci, int64_t kernel_t,
                    int64_t kernel_h, int64_t kernel_w) {
  return kernel_t == 3 && kernel_h == 3 && kernel_w == 3 &&
         cuda::conv_winograd_packs(*stream.gpu, dtype, co, ci);
}

int64_t packed_bytes(int64_t co, int64_t ci, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w,
                     DType dtype, const Stream& stream) {
  if (!stream.gpu)
    return ops::packed_conv3d_bytes(co, ci, kernel_t, kernel_h, kernel_w, stream.precision.compute);
  const int64_t taps = kernel_t * kernel_h * kernel_w;
  return cuda::conv_packed_bytes(dtype, 1, co, ci, taps) +
         (packs_winograd(stream, dtype, co, ci, kernel_t, kernel_h, kernel_w)
              ? cuda::conv_packed_bytes(dtype, 1, co, ci, kWinogradTaps)
              : 0);
}

void check_args(const CausalConv3dArgs& a, const Stream& stream) {
  const char* op = "causal_conv3d";
  require(a.kernel_t >= 1 && a.kernel_h >= 1 && a.kernel_w >= 1 && a.kernel_h % 2 == 1 && a.kernel_w % 2 == 1,
          "causal_conv3d: expected a kernel with odd height and width, got {}x{}x{}", a.kernel_t, a.kernel_h,
          a.kernel_w);
  require(a.time_stride >= 1 && a.front >= 0 && a.history >= 0,
          "causal_conv3d: expected time_stride >= 1, front and history >= 0, got {}, {}, {}", a.time_stride,
          a.front, a.history);
  const DType dtype = a.x.dtype;
  expect_float_dtype(op, "x", a.x, stream);
  expect_dense(op, "x", a.x, {-1, -1, -1, -1}, dtype);
  expect_shape(op, "y", a.y, {-1, -1, -1, -1});
  expect_dtype(op, "y", a.y, dtype);
  const int64_t t = a.x.dim(0), h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = a.y.dim(3);
  require(a.front + t >= a.kernel_t,
          "causal_conv3d: expected at least {} frames with the history, got {} + {}", a.kernel_t, a.front, t);
  expect_shape(op, "y", a.y, {(a.front + t - a.kernel_t) / a.time_stride + 1, h, w, co});
  const bool apart = !a.residual.defined() && !a.gamma.defined();
  require(a.y.contiguous() || (apart && a.y.slice(0, 0, 1).contiguous()),
          "causal_conv3d: expected a contiguous y");
  if (a.cache.defined()) expect_dense(op, "cache", a.cache, {-1, h, w, ci}, dtype);
  require(a.history <= (a.cache.defined() ? a.cache.dim(0) : 0),
          "causal_conv3d: expected history of at most the cache's {} frames, got {}",
          a.cache.defined() ? a.cache.dim(0) : 0, a.history);
  if (a.bias.defined()) expect_dense(op, "bias", a.bias, {co}, DType::f32);
  if (a.residual.defined()) expect_dense(op, "residual", a.residual, {a.y.dim(0), h, w, co}, dtype);
  if (a.gamma.defined()) expect_dense(op, "gamma", a.gamma, {co}, DType::f32);
  require(a.gamma.defined() || !a.normed.defined(), "causal_conv3d: expected gamma with normed");
  if (a.normed.defined()) expect_dense(op, "normed", a.normed, {a.y.dim(0), h, w, co}, dtype);
  expect_dtype(op, "packed", a.packed, DType::u8);
  expect_shape(op, "packed", a.packed,
               {packed_bytes(co, ci, a.kernel_t, a.kernel_h, a.kernel_w, dtype, stream)});
}

bool winograd_is_first(const CausalConv3dArgs& a, const Stream& stream) {
  return a.kernel_t == 3 && a.kernel_h == 3 && a.kernel_w == 3 && a.time_stride == 1 &&
         cuda::conv_winograd_is_first(*stream.gpu, a.x.dtype, a.y.dim(3), a.x.dim(3), a.x.dim(2));
}

// The multiply-adds that are done.
int64_t multiply_adds(const CausalConv3dArgs& a, const Stream& stream) {
  const int64_t all = a.y.numel() * a.kernel_t * a.kernel_h * a.kernel_w * a.x.dim(3);
  return stream.gpu && winograd_is_first(a, stream) ? all / 3 * 2 : all;
}

void move(char* to, const char* from, int64_t bytes, Stream& stream) {
  if (stream.gpu) return stream.gpu->copy(to, from, static_cast<size_t>(bytes));
  // Bytes of a piece, which take long to copy compared with the cost of handing it out.
  constexpr int64_t kPiece = int64_t{1} << 18;
  parallel_ranges(stream, bytes, kPiece, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

std::span<const Impl<CausalConv3dArgs>> causal_conv3d_table() { return kTable; }

void causal_conv3d(const CausalConv3dArgs& args, Stream& stream) {
  check_args(args, stream);
  if (args.y.numel() == 0) return;
  if (count_convolution("causal_conv3d", args.x.dtype, multiply_adds(args, stream),
                        {args.x, args.packed, args.residual, args.y, args.normed}, stream))
    return;
  pick<CausalConv3dArgs>("causal_conv3d", kTable, args, stream).run(args, stream);
}

bool causal_conv3d_normalises(const CausalConv3dArgs& args, const Stream& stream) {
  static const bool off = env_string("TACHY_CONV_NORM", "") == "0";
  if (off || stream.without.has(Optimisation::conv_norms)) return false;
  if (stream.gpu && !cuda::family_of(stream.gpu->info()).conv_norms) return false;
  const int64_t co = args.gamma.dim(0);
  if (cuda::is_absent(stream.gpu)) {
    if (stream.gpu->info().major == 9)
      return co <= cuda::kConvMostNormed &&
             (!winograd_is_first(args, stream) || cuda::conv_winograd_normalises(co));
    return stream.gpu->info().capability() >= 80 && cuda::conv_sm80_normalises(args.x.dim(3), co);
  }
  // A kernel that cannot normalise may still be the faster one, with a pass over y.
  CausalConv3dArgs plain = args;
  plain.gamma = plain.normed = Tensor();
  const auto* fastest = choose<CausalConv3dArgs>("causal_conv3d", kTable, plain, stream);
  if (fastest && fastest->name == std::string_view("winograd") && !cuda::conv_winograd_normalises(co))
    return false;
  const auto* impl = choose<CausalConv3dArgs>("causal_conv3d", kTable, args, stream);
  return impl && !is_definition(*impl);
}

int64_t packed_conv3d_bytes(int64_t co, int64_t ci, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w,
                            Compute compute) {
  return cpu::conv_weight_bytes(kernel_t, co, ci, kernel_h, kernel_w, compute);
}

int64_t packed_conv3d_bytes(int64_t co, int64_t ci, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w,
                            const Stream& stream) {
  return packed_bytes(co, ci, kernel_t, kernel_h, kernel_w, stream.precision.activation, stream);
}

void pack_conv3d_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  expect_shape("pack_conv3d_weight", "weight", weight, {-1, -1, -1, -1, -1});
  require(weight.contiguous() && cpu::widens(weight.dtype),
          "pack_conv3d_weight: expected a contiguous weight of f32, f16, bf16 or f8, got {}",
          dtype_name(weight.dtype));
  const int64_t co = weight.dim(0), ci = weight.dim(1);
  expect_shape("pack_conv3d_weight", "packed", packed,
               {packed_conv3d_bytes(co, ci, weight.dim(2), weight.dim(3), weight.dim(4), stream)});
  if (stream.measuring()) return;
  if (stream.gpu) {
    const int64_t taps = weight.dim(2) * weight.dim(3) * weight.dim(4);
    const auto row = [&](int64_t o, float* out) {
      cpu::widen(static_cast<const char*>(weight.data) + o * ci * taps * dtype_size(weight.dtype),
                 weight.dtype, ci * taps, out);
    };
    const DType dtype = stream.precision.activation;
    cuda::conv_pack(dtype, 1, co, ci, taps, row, packed, stream);
    if (!packs_winograd(stream, dtype, co, ci, weight.dim(2), weight.dim(3), weight.dim(4))) return;
    const auto sums = [&](int64_t o, float* out) {
      const auto plain = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(ci * taps));
      row(o, plain.get());
      for (int64_t i = 0; i < ci * 9; ++i) {
        const float* g = plain.get() + i * 3;
        out[2 * i] = 0.5f * (g[0] + g[1] + g[2]), out[2 * i + 1] = 0.5f * (g[0] - g[1] + g[2]);
      }
    };
    const int64_t before = cuda::conv_packed_bytes(dtype, 1, co, ci, taps);
    return cuda::conv_pack(dtype, 1, co, ci, kWinogradTaps, sums, packed.slice(0, before, packed.dim(0)),
                           stream);
  }
  cpu::pack_conv_weight(weight, packed.data, stream.precision.compute, *stream.pool);
}

int64_t push_frames(const Tensor& cache, int64_t history, const Tensor& x, Stream& stream) {
  const char* op = "push_frames";
  if (!is_code(cache.dtype)) expect_float_dtype(op, "cache", cache, stream);
  expect_dense(op, "cache", cache, {-1, -1, -1, -1}, cache.dtype);
  expect_dense(op, "x", x, {-1, cache.dim(1), cache.dim(2), cache.dim(3)}, cache.dtype);
  const int64_t n = cache.dim(0), t = x.dim(0);
  require(history >= 0 && history <= n, "push_frames: expected history in [0, {}], got {}", n, history);
  const int64_t kept = std::min(history, std::max<int64_t>(0, n - t)), added = std::min(t, n);
  if (stream.measuring() && n > 0) {  // the frames are read and written
    const double share = static_cast<double>(kept + added) / static_cast<double>(n);
    count_work({.op = op, .numbers = cache.dtype, .bytes = 2 * share * bytes_of({cache})}, stream);
  } else if (n > 0) {
    const int64_t frame = cache.numel() / n * dtype_size(cache.dtype);
    char* to = static_cast<char*>(cache.data);
    const char* from = static_cast<const char*>(x.data) + (t - added) * frame;
    // Valid frames lie at the end of the cache, so those that stay move towards the front by `added`. They
    // are moved one by one, the first one first, so that no copy overlaps itself.
    for (int64_t i = n - added - kept; i < n - added; ++i)
      move(to + i * frame, to + (i + added) * frame, frame, stream);
    move(to + (n - added) * frame, from, added * frame, stream);
  }
  return kept + added;
}

}  // namespace tachy::ops
