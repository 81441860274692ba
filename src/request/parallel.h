// How the ranks of a run share its denoising passes: what a caller asks for as text, and what a plan tells.
//   cfg      groups of ranks, each of which computes some of guidance's branches; groups exchange nothing
//   ulysses  ranks of a group that divide tokens, and in self-attention heads
//   ring     ranks of a group that divide tokens only: in self-attention keys and values go round
// With a ring the sums of self-attention are made in another order, so the bits differ from those of one
// rank.
#pragma once

#include <cstdint>
#include <string>

namespace tachy {

struct Parallel {
  int cfg = 0, ulysses = 0, ring = 0;  // all three 0: they are chosen for each request

  bool automatic() const { return cfg == 0; }
  int ranks() const { return cfg * ulysses * ring; }
  bool keeps_bits() const { return ring <= 1; }
  std::string text() const;  // "auto", or "cfg=2,ulysses=4,ring=1"
};

// Reads "auto", or some of "cfg=2,ulysses=4,ring=1" in any order; those that are left out are 1. Throws
// invalid_argument for anything else, and if the product is not `ranks`, the number that `field` asks
// for; 0: it may be any.
Parallel parse_parallel(const std::string& text, int ranks, const char* field = "ranks");

// One rank's part of a denoising pass that several ranks share (`ranks`): its share of guidance's branches,
// of the tokens of the clip (or of a window or block) and, in self-attention, of the heads. In talking photos
// and videos made block by block each rank has a part of every frame, and first_token lies in the first one.
struct RankPlan {
  int threads = 1;
  int64_t first_branch = 0, branches = 0, first_token = 0, tokens = 0, first_head = 0, heads = 0;
  int64_t first_row = 0, rows = 0;  // of latents, which the VAE decodes and encodes
};

}  // namespace tachy
