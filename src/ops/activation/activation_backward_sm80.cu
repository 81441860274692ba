// dx = dy · act'(x), as a flat loop with one pack of both per thread, as in the forward pass. The kind is a template
// argument: decided at run time, it kept so many registers that loads waited for the slopes.
#include "cuda/dispatch.h"
#include "device/activation.cuh"
#include "device/vec.cuh"
#include "ops/activation/activation_backward.h"
#include "ops/activation_dispatch.cuh"

namespace tachy::ops {
namespace {

using namespace device;

template <class T, int N, Act kAct>
__global__ void __launch_bounds__(256)
    activation_backward_kernel(const T* x, const T* dy, T* dx, int64_t count, bool streaming) {
  const int64_t packs = count / N, at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at < packs) {
    const Pack<T, N> in = load<T, N>(x + at * N), up = load<T, N>(dy + at * N);
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = up.get(i) * slope_of<T>(in.get(i), kAct);
    store(dx + at * N, v, streaming);
  } else if (at == packs) {  // the values after the last whole pack
    for (int64_t i = packs * N; i < count; ++i)
      dx[i] = from_float<T>(as_float(dy[i]) * slope_of<T>(as_float(x[i]), kAct));
  }
}

}  // namespace

void activation_backward_cuda(const ActivationBackwardArgs& a, Stream& stream) {
  const int64_t count = a.x.numel();
  if (count == 0) return;
  cuda::dispatch_float("activation_backward", a.x.dtype, [&]<class T>() {
    const bool streaming = cuda::streams(stream, count * static_cast<int64_t>(sizeof(T)));
    const auto with = [&]<int N>() {
      const cuda::LaunchShape shape{cuda::blocks_for(count / N + 1, 256), 256};
      dispatch_act(a.kind, [&]<Act kAct>() {
        cuda::launch("activation_backward", activation_backward_kernel<T, N, kAct>, shape, stream,
                     static_cast<const T*>(a.x.data), static_cast<const T*>(a.dy.data),
                     static_cast<T*>(a.dx.data), count, streaming);
      });
    };
    if (cuda::aligned16(a.x) && cuda::aligned16(a.dy) && cuda::aligned16(a.dx))
      with.template operator()<kPack<T>>();
    else
      with.template operator()<1>();
  });
}

}  // namespace tachy::ops
