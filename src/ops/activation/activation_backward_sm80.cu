// dx = dy · act'(x), as a flat loop: each thread loads four packs of both at once.
#include "cuda/dispatch.h"
#include "device/vec.cuh"
#include "ops/activation/activation_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kAhead = 4;

template <class T, int N>
__global__ void __launch_bounds__(256)
    activation_backward_kernel(const T* x, const T* dy, T* dx, int64_t count, Act kind) {
  const int64_t packs = count / N, first = static_cast<int64_t>(blockIdx.x) * kAhead * 256 + threadIdx.x;
  Pack<T, N> in[kAhead], up[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
    if (first + k * 256 < packs)
      in[k] = load<T, N>(x + (first + k * 256) * N), up[k] = load<T, N>(dy + (first + k * 256) * N);
  with_act(kind, [&](auto act) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t at = first + k * 256;
      if (at < packs) {
        float v[N];
#pragma unroll
        for (int i = 0; i < N; ++i)
          v[i] = up[k].get(i) * activate_slope<sizeof(T) == 2>(in[k].get(i), act.value);
        store(dx + at * N, v);
      } else if (at == packs) {  // the values after the last whole pack
        for (int64_t i = packs * N; i < count; ++i)
          dx[i] = from_float<T>(as_float(dy[i]) * activate_slope<sizeof(T) == 2>(as_float(x[i]), act.value));
      }
    }
  });
}

}  // namespace

void activation_backward_cuda(const ActivationBackwardArgs& a, Stream& stream) {
  const int64_t count = a.x.numel();
  if (count == 0) return;
  cuda::dispatch_float("activation_backward", a.x.dtype, [&]<class T>() {
    const auto with = [&]<int N>() {
      cuda::launch("activation_backward", activation_backward_kernel<T, N>,
                   {cuda::blocks_for(count / N + 1, 256 * kAhead), 256}, stream,
                   static_cast<const T*>(a.x.data), static_cast<const T*>(a.dy.data),
                   static_cast<T*>(a.dx.data), count, static_cast<Act>(a.kind));
    };
    if (cuda::aligned16(a.x) && cuda::aligned16(a.dy) && cuda::aligned16(a.dx))
      with.template operator()<kPack<T>>();
    else
      with.template operator()<1>();
  });
}

}  // namespace tachy::ops
