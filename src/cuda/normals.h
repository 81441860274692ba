// TorchCpuGenerator (tensor/random.h) on a GPU: the same bits, at the cost of a kernel launch in
// place of the host's time.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace tachy::cuda {

inline constexpr int64_t kGeneratorWords = 625;  // MT19937's state, and how many of its words are used up

// Queues the work of TorchCpuGenerator::normal with `state` [kGeneratorWords] i32, in which it leaves the
// generator's next state. `to` is contiguous f32, in whole blocks of 16 values.
void queue_torch_normals(const Tensor& state, const Tensor& to, const Stream& stream);

}  // namespace tachy::cuda
