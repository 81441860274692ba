// Attention over a sequence whose tokens are divided among ranks. Each rank gets the tokens of its part of
// the ring (all tokens, if there is no ring) of some heads, attends, and gets back the result of its own
// tokens (Ulysses, arXiv 2309.14509). Since heads do not depend on one another, the result stays the same.
//
//   q, k, v [B, T/P, H, D]  →  [B, T/R, H/U, D]  →  attend  →  [B, T/R, H/U, D]  →  out [B, T/P, H, D]
//
// With a ring of R parts (arXiv 2310.01889) P = U·R: a rank has the queries of its part, and keys and values
// of all parts go round. The softmaxes over the parts are merged by their sums (ops/merge_softmax), which
// rounds otherwise than one softmax over all keys.
//
// share_of divides places and heads. If there are more ranks than heads, the others attend to nothing and
// only exchange their tokens. With a single rank, attend() is called with the given tensors.
#pragma once

#include <functional>

#include "runtime/spread.h"

namespace tachy::runtime {

struct HeadTensors {
  Tensor q, k, v, out;  // [B, tokens, heads, D], contiguous along D
  Tensor lse = {};      // [B, heads, tokens] f32, to be written if it is defined (AttentionArgs::lse)
};

// `comm` is null if there is one rank. `attend` must write its whole `out`.
void attend_by_heads(Comm* comm, const Spread& spread, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend);

}  // namespace tachy::runtime
