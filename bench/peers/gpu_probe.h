// What a transformer's forward on a GPU spends its time on: milliseconds by op (CUDA events round each
// range), the kernels a block launches, and the same attention and GEMM calls timed alone in the same run, in
// turn with the forward, so that both see the same clocks. What is left of the forward is ours to win.
#pragma once

#include <functional>

#include "models/wan/wan_config.h"
#include "tensor/stream.h"

namespace tachy::bench {

struct ForwardShape {
  int64_t tokens, keys;  // keys of the cross-attention, the collapsed one included
  bool key_bias;
};

// forward: queues one whole forward on the stream; stream.arena: one it ran in.
void report_forward(const WanConfig& config, const ForwardShape& shape, Stream& stream, int repeats,
                    const std::function<void()>& forward);

}  // namespace tachy::bench
