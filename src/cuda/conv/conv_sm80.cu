// Launches the generic convolution kernels.
#include "cuda/conv/conv.h"
#include "cuda/conv/conv_halo_sm80.h"
#include "cuda/conv/conv_tile_sm80.h"
#include "cuda/dispatch.h"
#include "cuda/runtime.h"
#include "device/conv_head.cuh"
#include "device/conv_patch_stem.cuh"
#include "device/conv_sm80.cuh"
#include "device/conv_stem.cuh"

namespace tachy::cuda {
namespace {

device::Conv80Params params_of(const ConvProblem& problem) {
  device::Conv80Params p{};
  p.s = problem.shape, p.x = problem.x.data;
  const device::ConvShape& s = problem.shape;
  p.cache = problem.cache.defined() ? problem.cache.data : nullptr;
  p.weights = problem.packed.data;
  p.s.y = problem.y.data;
  p.s.bias = problem.bias.defined() ? problem.bias.data : nullptr;
  p.s.residual = problem.residual.defined() ? problem.residual.data : nullptr;
  p.padded_ci = static_cast<int>(conv_padded_ci(s.ci));
  p.k = static_cast<int>(conv_packed_k(s.ci, int64_t{s.kernel_t} * s.kernel_h * s.kernel_w));
  return p;
}

HaloNorm norm_of(const ConvProblem& problem) {
  if (!problem.gamma.defined()) return {};
  return {.wanted = true,
          .gamma = static_cast<const float*>(problem.gamma.data),
          .normed = problem.normed.defined() ? problem.normed.data : problem.y.data,
          .silu = problem.silu};
}

dim3 grid_of(const device::ConvShape& s, int m, int n) {
  const int64_t positions = int64_t{s.frames} * s.height * s.width;
  return dim3(static_cast<unsigned>((positions + m - 1) / m), static_cast<unsigned>((s.co + n - 1) / n),
              static_cast<unsigned>(s.phases));
}

template <class T>
void run(const device::Conv80Params& p, const Stream& stream) {
  const LaunchShape shape{.grid = grid_of(p.s, device::kConv80M, device::kConv80N), .block = dim3(256)};
  const bool aligned =
      (reinterpret_cast<uintptr_t>(p.x) | reinterpret_cast<uintptr_t>(p.cache)) % 16 == 0 && p.padded_ci;
  launch("conv_sm80", aligned ? device::conv_sm80<T, false> : device::conv_sm80<T, true>, shape, stream, p);
}

}  // namespace

std::optional<Refusal> conv_sm80_why_not(const ConvProblem& problem, const Stream& stream) {
  if (auto why = why_no_tensor_cores(stream, problem.x.dtype, 0)) return why;
  if (reinterpret_cast<uintptr_t>(problem.packed.data) % 16 != 0)
    return Refusal::arguments("it takes weights aligned to 16 bytes");
  if (problem.gamma.defined() && !conv_halo_sm80_takes(params_of(problem), norm_of(problem), stream))
    return Refusal::arguments("it normalises only 3x3 convolutions whose channels all lie in one tile");
  return std::nullopt;
}

std::optional<Refusal> conv_sm80_is_faster(const ConvProblem& problem, const Stream& stream) {
  if (!conv_sm80_why_not(problem, stream) &&
      conv_halo_sm80_takes(params_of(problem), norm_of(problem), stream))
    return Refusal::slower("sm80 reads x once for all taps of its 3x3 kernel");
  return std::nullopt;
}

void conv_sm80(const ConvProblem& problem, Stream& stream) {
  if (stream.measuring()) return;
  device::Conv80Params p = params_of(problem);
  const HaloNorm norm = norm_of(problem);
  if (norm.wanted && norm.normed == p.s.y) p.s.y = nullptr;
  if (conv_halo_sm80(p, norm, problem.x.dtype, stream)) return;
  if (conv_tile_sm80(p, problem.x.dtype, stream)) return;
  if (problem.x.dtype == DType::bf16)
    run<__nv_bfloat16>(p, stream);
  else
    run<__half>(p, stream);
}

std::optional<Refusal> conv_head_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  if (auto why = why_no_tensor_cores(stream, problem.x.dtype, device::kHeadSharedBytes)) return why;
  if (s.ci != device::kHeadCi || s.co != device::kHeadCo)
    return Refusal::arguments("it takes 96 channels and makes 3");
  if (s.kernel_t != 3 || s.kernel_h != 3 || s.kernel_w != 3 || s.stride != 1 || s.time_stride != 1 ||
      s.front != 2 || s.pad_top != 1 || s.pad_left != 1 || s.phases != 1 || problem.residual.defined())
    return Refusal::arguments("it does 3x3x3 kernels without strides or residual");
  for (const Tensor* t : {&problem.x, &problem.cache, &problem.packed})
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  return std::nullopt;
}

void conv_head(const ConvProblem& problem, Stream& stream) {
  if (stream.measuring()) return;
  const device::Conv80Params p = params_of(problem);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>((p.s.width + 15) / 16), static_cast<unsigned>((p.s.height + 7) / 8)),
      .block = dim3(device::kHeadThreads),
      .shared_bytes = device::kHeadSharedBytes};
  launch("conv_head",
         problem.x.dtype == DType::bf16 ? device::conv_head<__nv_bfloat16> : device::conv_head<__half>, shape,
         stream, p);
}

std::optional<Refusal> conv_stem_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  const bool patches = s.ci == device::kPatchStemCi;
  if ((!patches && s.ci != device::kStemCi) || s.co % 8 != 0)
    return Refusal::arguments("it takes 3 or 12 channels and makes a multiple of 8");
  const size_t shared_bytes = patches ? device::kPatchStemSharedBytes : 0;
  if (auto why = why_no_tensor_cores(stream, problem.x.dtype, shared_bytes)) return why;
  if (s.kernel_t != 3 || s.kernel_h != 3 || s.kernel_w != 3 || s.stride != 1 || s.time_stride != 1 ||
      s.front != 2 || s.pad_top != 1 || s.pad_left != 1 || s.phases != 1 || problem.residual.defined())
    return Refusal::arguments("it does 3x3x3 kernels without strides or residual");
  for (const Tensor* t : {&problem.y, &problem.x, &problem.cache, &problem.packed})
    if ((patches || t == &problem.y) && reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  return std::nullopt;
}

namespace {

// Each block takes 80 channels and one tile of positions after the other.
void conv_patch_stem(const device::Conv80Params& p, DType dtype, Stream& stream) {
  constexpr int kSide = device::kPatchStemSide, kN = device::kPatchStemN;
  const int64_t tiles = ceil_div(p.s.width, kSide) * ceil_div(p.s.height, kSide),
                parts = ceil_div(p.s.co, kN);
  const unsigned blocks = persistent_grid(stream, tiles * parts, 2);
  const LaunchShape shape{.grid = dim3(blocks_for(blocks, parts), static_cast<unsigned>(parts)),
                          .block = dim3(device::kPatchStemThreads),
                          .shared_bytes = device::kPatchStemSharedBytes};
  launch("conv_patch_stem",
         dtype == DType::bf16 ? device::conv_patch_stem<__nv_bfloat16> : device::conv_patch_stem<__half>,
         shape, stream, p);
}

}  // namespace

void conv_stem(const ConvProblem& problem, Stream& stream) {
  if (stream.measuring()) return;
  const device::Conv80Params p = params_of(problem);
  if (p.s.ci == device::kPatchStemCi) return conv_patch_stem(p, problem.x.dtype, stream);
  const int tiles = ((p.s.width + 15) / 16) * ((p.s.height + 7) / 8);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>((p.s.co + 95) / 96)),
      .block = dim3(device::kStemThreads)};
  launch("conv_stem",
         problem.x.dtype == DType::bf16 ? device::conv_stem<__nv_bfloat16> : device::conv_stem<__half>, shape,
         stream, p);
}

std::optional<Refusal> conv_simple_why_not(const ConvProblem& problem, const Stream&) {
  if (problem.x.dtype != DType::f32) return Refusal::arguments("it takes float32");
  return std::nullopt;
}

void conv_simple(const ConvProblem& problem, Stream& stream) {
  if (stream.measuring()) return;
  const device::Conv80Params p = params_of(problem);
  launch("conv_simple", device::conv_simple, {.grid = grid_of(p.s, 64, 64), .block = dim3(256)}, stream, p);
}

}  // namespace tachy::cuda
