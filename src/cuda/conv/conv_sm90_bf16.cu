#include "cuda/conv/conv_sm90_tiles.cuh"

namespace tachy::cuda {

std::span<const Conv90Entry> conv90_entries_bf16() { return kConv90Entries<__nv_bfloat16>; }

}  // namespace tachy::cuda
