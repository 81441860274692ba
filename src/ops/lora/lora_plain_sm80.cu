// The adapters with FMA (lora_plain.cuh).
#include "ops/lora/lora_plain.cuh"

namespace tachy::ops {

using namespace lora_gpu;

void lora_cuda_plain(const LoraArgs& a, Stream& stream) {
  cuda::dispatch_float("lora", a.x.dtype, [&]<class T>() {
    Params p = make_params(a, stream, kPlainTile, kPlainTile, kPlainTile);
    const ArenaScope scope(*stream.arena);
    p.low = take_low(p, *stream.arena);
    if (stream.measuring()) return;
    cuda::launch("lora", lora_down_plain<T>, {down_grid(p, kPlainTile), 256}, stream, p);
    cuda::launch("lora", lora_up_plain<T>, {up_grid(p, kPlainTile), 256}, stream, p);
  });
}

}  // namespace tachy::ops
