// Attention over a sequence whose tokens are divided among ranks. Each rank gets all tokens of some heads,
// attends, and gets back the result of its own tokens (Ulysses, arXiv 2309.14509). Since heads do not depend
// on one another, the result stays the same.
//
//   q, k, v [B, T/P, H, D]  →  [B, T, H/P, D]  →  attend  →  [B, T, H/P, D]  →  out [B, T/P, H, D]
//
// share_of divides tokens and heads. If there are more ranks than heads, the others attend to nothing and
// only exchange their tokens. With a single rank, attend() is called with the given tensors.
#pragma once

#include <functional>

#include "runtime/comm.h"

namespace tachy::runtime {

struct HeadTensors {
  Tensor q, k, v, out;  // [B, tokens, heads, D], contiguous along D
};

// `comm` is null if there is one rank. `tokens` is T, the number of tokens of all ranks. `attend` must write
// its whole `out`.
void attend_by_heads(Comm* comm, int64_t tokens, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend);

}  // namespace tachy::runtime
