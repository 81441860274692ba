#include "cuda/conv_sm90_next_tiles.cuh"

namespace tachy::cuda::next {

std::span<const Conv90Entry> conv90_entries_bf16() { return kConv90Entries<__nv_bfloat16>; }

}  // namespace tachy::cuda::next
