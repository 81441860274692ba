#include "cuda/conv/conv_sm90_tiles.cuh"

namespace tachy::cuda {

std::span<const Conv90Entry> conv90_entries_f16() { return kConv90Entries<__half>; }

}  // namespace tachy::cuda
