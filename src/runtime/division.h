// How the ranks of a group divide tokens and heads (attend_by_heads.h).
#pragma once

#include "runtime/spread.h"

namespace tachy::runtime {

// Tells which parts of a sequence this rank and the others have. `peers` are the ranks of its part of the
// ring, with whom it exchanges heads; they are counted from 0.
class Division {
 public:
  Division(Comm& comm, const Spread& spread, int64_t heads)
      : comm_(comm), spread_(spread), heads_(heads), peers_(comm.size() / spread.ring) {}
  int64_t ranks() const { return comm_.size(); }
  int64_t peers() const { return peers_; }
  int64_t frames() const { return spread_.frames; }
  bool together() const { return spread_.together; }
  int64_t part() const { return comm_.rank() / peers_; }
  int64_t rank_of(int64_t peer) const { return part() * peers_ + peer; }
  int64_t rank_in(int64_t part) const { return part * peers_ + comm_.rank() % peers_; }  // has the same heads
  Share places(int64_t rank) const { return spread_.places_of(rank, ranks()); }
  Share places_of_part(int64_t part) const {
    return {places(part * peers_).first, places((part + 1) * peers_ - 1).end};
  }
  int64_t tokens(int64_t rank) const { return frames() * places(rank).count(); }
  int64_t tokens_of_part(int64_t part) const { return frames() * places_of_part(part).count(); }
  Share heads(int64_t peer) const { return share_of(heads_, peer, peers_); }
  int64_t my_heads() const { return heads(comm_.rank() % peers_).count(); }
  // Returns a peer's tokens in t [B, tokens of the part, heads, D], which is contiguous, as [B, frames, places,
  // heads, D].
  Tensor tokens_of(const Tensor& t, int64_t peer) const {
    const Share all = places_of_part(part()), own = places(rank_of(peer));
    return t.view({t.dim(0), frames(), all.count(), t.dim(2), t.dim(3)})
        .slice(2, own.first - all.first, own.end - all.first);
  }

 private:
  Comm& comm_;
  const Spread& spread_;
  int64_t heads_, peers_;
};

}  // namespace tachy::runtime
