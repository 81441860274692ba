// Shows on what a transformer's forward pass on a GPU spends its time: milliseconds by op (CUDA events around
// each range), the kernels that a block launches, and the same attention and GEMM calls timed alone in the
// same run, alternating with the forward pass, so that both see the same clocks. The rest of the forward pass
// is what we can still improve.
#pragma once

#include <functional>

#include "models/wan/wan_config.h"
#include "tensor/stream.h"

namespace tachy::bench {

struct ForwardShape {
  int64_t tokens, keys;  // keys of the cross-attention, including the collapsed one
  bool key_bias;
};

// forward: queues one whole forward pass on the stream; stream.arena: an arena in which one has run.
void report_forward(const WanConfig& config, const ForwardShape& shape, Stream& stream, int repeats,
                    const std::function<void()>& forward);

}  // namespace tachy::bench
