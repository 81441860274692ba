// The ranks of one run on the CPU. Each works in a thread with its own thread pool and its own communicator.
// The ranks are divided into groups by branches of guidance, and within a group by tokens and heads.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <optional>

#include "runtime/thread_comm.h"

namespace tachy::runtime {

// How ranks share a pass: in groups of equal size, each of which computes some of guidance's branches. The
// ranks of a group divide its tokens; `ring` is that of Spread (attend_by_heads.h).
struct RankLayout {
  int groups = 1, per_group = 1, ring = 1;
  int count() const { return groups * per_group; }
  int ulysses() const { return per_group / ring; }
  int group_of(int rank) const { return rank / per_group; }
  int place_of(int rank) const { return rank % per_group; }  // rank within its group
  bool operator==(const RankLayout&) const = default;

  // Returns the layout for this many ranks, branches and tokens. Ranks without any tokens are left out.
  static RankLayout of(int ranks, int64_t branches, int64_t tokens);
};

// Returns a rank's share of a run's threads, at least one.
int threads_of(int threads, int rank, int ranks);

class RankTeam {
 public:
  // `threads` is the total number. The ranks share passes as `asked` says, or as RankLayout::of does.
  RankTeam(int ranks, int threads, std::optional<RankLayout> asked = std::nullopt);
  RankLayout layout(int64_t branches, int64_t tokens) const {
    return asked_ ? *asked_ : RankLayout::of(size(), branches, tokens);
  }
  int size() const { return static_cast<int>(pools_.size()); }
  ThreadPool& pool(int rank) { return pools_[static_cast<size_t>(rank)]; }

  // Calls body(rank, comm) for each rank of the layout; rank 0 runs in the calling thread, and comm connects
  // the ranks of a group. Rethrows the first error that a rank itself caused; ranks that wait for that rank
  // stop. All warnings are reported in the calling thread.
  void run(const RankLayout& layout, const std::function<void(int rank, Comm& comm)>& body);

 private:
  std::deque<ThreadPool> pools_;
  std::optional<RankLayout> asked_;
};

}  // namespace tachy::runtime
