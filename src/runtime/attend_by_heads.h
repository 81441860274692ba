// Attention over a sequence whose tokens are divided among ranks: each rank gets all tokens of some heads,
// attends, and gets the result of its own tokens back (Ulysses, arXiv 2309.14509). Heads do not depend on one
// another, so the result is the same.
//
//   q, k, v [B, T/P, H, D]  →  [B, T, H/P, D]  →  attend  →  [B, T, H/P, D]  →  out [B, T/P, H, D]
//
// Tokens and heads are divided as share_of says; ranks beyond the heads attend to nothing and only pass their
// tokens on. With one rank it only calls attend() with the tensors that it was given.
#pragma once

#include <functional>

#include "runtime/comm.h"

namespace tachy::runtime {

struct HeadTensors {
  Tensor q, k, v, out;  // [B, tokens, heads, D], inner dim contiguous
};

// comm: null if there is one rank. tokens: T, the tokens of all ranks. attend writes all of its `out`.
void attend_by_heads(Comm* comm, int64_t tokens, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend);

}  // namespace tachy::runtime
