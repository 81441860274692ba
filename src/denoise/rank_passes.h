// Runs a denoiser's passes on the ranks of a run, or by itself without any. Every rank computes on a stream of
// its own, with a part of the arena that the plan counts; ranks exchange tensors within their group.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "runtime/rank_team.h"

namespace tachy {

class RankPasses {
 public:
  // Computes rank's part of a pass. Comm connects the ranks of the rank's group.
  using Forward = std::function<void(int rank, runtime::Comm& comm, Stream& stream)>;

  RankPasses() = default;
  RankPasses(runtime::RankTeam& team, const runtime::RankLayout& layout) : team_(&team), layout_(layout) {}

  bool several() const { return team_ != nullptr; }
  const runtime::RankLayout& layout() const { return layout_; }
  // Runs a pass of that kind; passes of one kind need the same scratch. Rank 0 computes on `stream`.
  void run(int64_t kind, Stream& stream, const Forward& forward);

 private:
  // Returns the stream that a rank computes on.
  Stream stream_of(int rank, const Stream& stream, Arena& arena) const;
  // Returns the bytes that a pass needs, found by a pass that only measures.
  size_t scratch_of(int rank, const Stream& stream, const Forward& forward) const;

  runtime::RankTeam* team_ = nullptr;  // null: there is one rank
  runtime::RankLayout layout_;
  std::map<int64_t, std::vector<size_t>>
      scratch_;  // for each kind of pass, the scratch of all ranks but the first
};

}  // namespace tachy
