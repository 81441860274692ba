// The ranks of one run on the CPU. Each is a thread while it works, with its own pool of threads and its own
// communicator. Ranks are divided into groups by the branches of guidance that they compute, and within a
// group by tokens and heads.
#pragma once

#include <deque>
#include <exception>
#include <functional>

#include "runtime/thread_comm.h"

namespace tachy::runtime {

// How ranks divide a pass: in groups of the same size, each of which computes some of guidance's branches.
struct RankLayout {
  int groups = 1, per_group = 1;
  int count() const { return groups * per_group; }
  int group_of(int rank) const { return rank / per_group; }
  int place_of(int rank) const { return rank % per_group; }  // rank within its group

  // The layout for that many ranks, branches and tokens; ranks for which no token is left stay out.
  static RankLayout of(int ranks, int64_t branches, int64_t tokens);
};

// A rank's share of a run's threads; at least one.
int threads_of(int threads, int rank, int ranks);

class RankTeam {
 public:
  // threads: total number.
  RankTeam(int ranks, int threads);
  int size() const { return static_cast<int>(pools_.size()); }
  ThreadPool& pool(int rank) { return pools_[static_cast<size_t>(rank)]; }

  // Calls body(rank, comm) for each rank of the layout, rank 0 in the calling thread; comm connects the ranks
  // of its group. Rethrows the first error that a rank itself caused; the other ranks stop where they wait
  // for that rank. All warnings go where the calling thread's go.
  void run(const RankLayout& layout, const std::function<void(int rank, Comm& comm)>& body);

 private:
  std::deque<ThreadPool> pools_;
};

}  // namespace tachy::runtime
