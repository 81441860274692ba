// The adapters with mma.sync (lora_sm80.cuh).
#include "ops/lora/lora_sm80.cuh"

namespace tachy::ops {

using namespace lora_gpu;

std::optional<Refusal> lora_why_not_sm80(const LoraArgs& a, const Stream& stream) {
  if (auto no = cuda::why_no_tensor_cores(stream, a.x.dtype, kDownShared)) return no;
  if (!cuda::fits_packs(8, {&a.x, &a.a}))
    return Refusal::arguments("rows of x and A are not aligned to 16 bytes");
  return std::nullopt;
}

void lora_sm80(const LoraArgs& a, Stream& stream) {
  const auto typed = [&]<class T>() {
    Params p = make_params(a, stream, kDownRows, kUpRows, kUpColumns);
    const bool whole_b = cuda::fits_packs(8, {&a.b});
    const bool whole_y = cuda::aligned16(a.y) && (p.rows == 1 || p.y_stride % 8 == 0);
    const ArenaScope scope(*stream.arena);
    p.low = take_low(p, *stream.arena);
    if (stream.measuring()) return;
    cuda::launch("lora", lora_down_sm80<T, false>, {down_grid(p, kDownRows), 256, kDownShared}, stream, p);
    cuda::launch("lora", lora_up_sm80<T, false>, {up_grid(p, kUpRows), 256, kUpShared}, stream, p, whole_b,
                 whole_y);
  };
  a.x.dtype == DType::bf16 ? typed.template operator()<__nv_bfloat16>() : typed.template operator()<__half>();
}

}  // namespace tachy::ops
