// The adapters for few rows (lora_few_rows.cuh).
#include "ops/lora/lora_few_rows.cuh"
#include "ops/lora/lora_few_rows.h"

namespace tachy::ops {

using namespace lora_gpu;

std::optional<Refusal> lora_why_not_few_rows(const LoraArgs& a, const Stream& stream) {
  if (auto no = cuda::why_no_tensor_cores(stream, a.x.dtype, 0)) return no;
  if (stream.gpu->info().capability() < 80) return Refusal::weak_gpu("it needs compute capability 8.0");
  if (a.x.dim(0) > kFewRows) return Refusal::arguments("more than 64 rows");
  if (!cuda::fits_packs(8, {&a.x, &a.a}) || !cuda::fits_packs(4, {&a.b}))
    return Refusal::arguments("rows of x and A are not aligned to 16 bytes, or those of B to 8");
  return std::nullopt;
}

void run_lora_few_rows(const LoraArgs& a, const LoraTiles& tiles, Stream& stream) {
  const auto typed = [&]<class T, int kTiles>() {
    Params p = make_params(a, stream, kFewRows, kFewRows, 128);
    p.depth = (p.in + tiles.splits * kFewDepth - 1) / (tiles.splits * kFewDepth) * kFewDepth;
    p.splits = (p.in + p.depth - 1) / p.depth;
    const ArenaScope scope(*stream.arena);
    p.low = take_low(p, *stream.arena);
    if (stream.measuring()) return;
    const auto adapters = static_cast<unsigned>(p.index ? p.adapters : 1);
    const bool pairs = reinterpret_cast<uintptr_t>(p.y) % 4 == 0 && (p.rows == 1 || p.y_stride % 2 == 0);
    cuda::launch_overlapping(
        "lora", lora_few_down_sm80<T, kTiles>,
        {dim3(cuda::blocks_for(p.width, kFewColumns), adapters, static_cast<unsigned>(p.splits)),
         static_cast<unsigned>(tiles.down_warps * 32)},
        stream, p);
    cuda::launch_overlapping("lora", lora_few_up_sm80<T, kTiles>,
                             {dim3(cuda::blocks_for(p.out, tiles.up_warps * kFewColumns), adapters),
                              static_cast<unsigned>(tiles.up_warps * 32)},
                             stream, p, pairs);
  };
  const auto sized = [&]<class T>() {
    if (a.x.dim(0) <= 16) return typed.template operator()<T, 1>();
    if (a.x.dim(0) <= 32) return typed.template operator()<T, 2>();
    typed.template operator()<T, 4>();
  };
  a.x.dtype == DType::bf16 ? sized.template operator()<__nv_bfloat16>() : sized.template operator()<__half>();
}

}  // namespace tachy::ops
