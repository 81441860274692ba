// A Spread says which tokens of a sequence each rank of a group has.
#pragma once

#include "runtime/comm.h"

namespace tachy::runtime {

// A sequence of `frames` times as many places: a rank has all frames of some places. With one frame, these are
// neighbours in the sequence. A rank's own tokens lie frame after frame. Of P = U·R ranks, with a ring of R
// parts, ranks i·U to (i + 1)·U − 1 have part i.
struct Spread {
  int64_t tokens = 0;  // of all ranks
  int64_t frames = 1;
  int ring = 1;
  bool together = false;  // a rank's heads are attended to in one call

  int64_t places() const { return tokens / frames; }
  Share places_of(int64_t rank, int64_t ranks) const { return share_of(places(), rank, ranks); }
  int64_t tokens_of(int64_t rank, int64_t ranks) const { return frames * places_of(rank, ranks).count(); }

  // Views some places of `whole` [B, tokens, n] as [B, frames, places, n].
  Tensor of_places(const Tensor& whole, const Share& places) const;
};

// Returns this rank's tokens [B, own tokens, n] of `whole` [B, tokens, n], which is contiguous: a part of
// `whole` where they lie together in it, otherwise a copy in the arena.
Tensor own_tokens(const Comm* comm, const Spread& spread, const Tensor& whole, Stream& stream);

// Returns all ranks' tokens [B, tokens, n], in the arena of the first rank or of every rank. `own` [B, own
// tokens, n] is contiguous. The other ranks get no tensor.
Tensor tokens_on_first(Comm& comm, const Spread& spread, const Tensor& own, Stream& stream);
Tensor tokens_on_all(Comm& comm, const Spread& spread, const Tensor& own, Stream& stream);

}  // namespace tachy::runtime
