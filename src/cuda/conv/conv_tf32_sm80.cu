// Launches the convolution of float32 with operands rounded to TF32 (device/conv_halo_floats.cuh), for 3x3 kernels
// without strides and for the phases of upsampling.
#include <algorithm>

#include "cuda/conv/conv_tf32.h"
#include "cuda/dispatch.h"
#include "device/conv_halo_floats.cuh"

namespace tachy::cuda {
namespace {

using device::HaloShape;
using device::Tf32;

// A unit has 16 channels.
using Conv = HaloShape<Tf32, 24, 96, 48, 1>;
using Phases = HaloShape<Tf32, 24, 96, 48, 1, 64, 1, 2>;
constexpr size_t kBytes = std::max(size_t{Conv::kSharedBytes}, size_t{Phases::kSharedBytes});

bool aligned(const ConvProblem& problem) {
  uintptr_t all = 0;
  for (const Tensor* t :
       {&problem.x, &problem.cache, &problem.packed, &problem.residual, &problem.bias, &problem.y})
    all |= reinterpret_cast<uintptr_t>(t->data);
  return all % 16 == 0;
}

template <class S>
void run(device::ConvHaloParams p, const Stream& stream) {
  const device::ConvShape& s = p.conv.s;
  p.tiles_h = static_cast<int>(ceil_div(s.height, S::kRows));
  p.tiles_w = static_cast<int>(ceil_div(s.width, S::kSide));
  p.tiles_n = static_cast<int>(ceil_div(s.co, S::kColumns));
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * s.frames * s.phases;
  const LaunchShape shape{.grid = dim3(persistent_grid(stream, p.work, 1)),
                          .block = dim3(S::kThreads),
                          .shared_bytes = S::kSharedBytes};
  launch("conv_tf32_sm80", device::conv_halo_sm80<S, float>, shape, stream, p);
}

}  // namespace

std::optional<Refusal> conv_tf32_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  if (problem.x.dtype != DType::f32) return Refusal::arguments("it takes float32");
  if (stream.precision.products != Products::tf32) return Refusal::settings("TF32 is not asked for");
  const GpuInfo& gpu = stream.gpu->info();
  if (gpu.capability() < 80 || gpu.shared_bytes < kBytes)
    return Refusal::weak_gpu("TF32 needs compute capability 8.0");
  if (problem.gamma.defined()) return Refusal::arguments("it leaves the norm to a pass of its own");
  const int side = s.phases == 4 ? 2 : 3;
  if (s.kernel_h != side || s.kernel_w != side || s.stride != 1)
    return Refusal::arguments("it does 3x3 kernels without strides");
  if (s.ci % 32 != 0 || s.co % 8 != 0)
    return Refusal::arguments(
        "it takes input channels in multiples of 32 and output channels in multiples of 8");
  if (!aligned(problem)) return Refusal::arguments("it takes memory aligned to 16 bytes");
  const int64_t most = int64_t{1} << 28, k = int64_t{s.kernel_t} * side * side * s.ci;
  if (int64_t{s.in_height} * s.in_width * s.ci >= most || int64_t{s.co} * k >= most ||
      int64_t{s.frames} * s.height * s.width * s.phases >= most)
    return Refusal::arguments("it counts bytes of a frame in 32 bits");
  return std::nullopt;
}

void conv_tf32(const ConvProblem& problem, Stream& stream) {
  if (stream.measuring()) return;
  device::ConvHaloParams p{};
  device::Conv80Params& conv = p.conv;
  conv.s = problem.shape, conv.x = problem.x.data;
  conv.cache = problem.cache.defined() ? problem.cache.data : nullptr, conv.weights = problem.packed.data;
  conv.s.y = problem.y.data;
  conv.s.bias = problem.bias.defined() ? problem.bias.data : nullptr;
  conv.s.residual = problem.residual.defined() ? problem.residual.data : nullptr;
  conv.padded_ci = conv.s.ci, conv.k = conv.s.kernel_t * conv.s.kernel_h * conv.s.kernel_w * conv.s.ci;
  conv.s.phases == 4 ? run<Phases>(p, stream) : run<Conv>(p, stream);
}

}  // namespace tachy::cuda
