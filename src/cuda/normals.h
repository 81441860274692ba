// TorchCpuGenerator (tensor/random.h) on a GPU: the same bits, for a kernel's launch in place of the host's time.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace tachy::cuda {

inline constexpr int64_t kGeneratorWords = 625;  // MT19937's state, and how many of its words are used up

// Queues what TorchCpuGenerator::normal makes of `state` [kGeneratorWords] i32, in which it leaves the generator's next state.
// to: contiguous f32, whole blocks of 16 values.
void queue_torch_normals(const Tensor& state, const Tensor& to, const Stream& stream);

}  // namespace tachy::cuda
