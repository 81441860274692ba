// The ranks of one run on the CPU: a thread each while they work, with a pool of threads and a communicator of its own. They
// are told apart by the branches of guidance that they compute (groups), and within a group by tokens and heads.
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
  int place_of(int rank) const { return rank % per_group; }  // within its group

  // The layout of so many ranks, branches and tokens; ranks that no token is left for stay out.
  static RankLayout of(int ranks, int64_t branches, int64_t tokens);
};

// A rank's share of a run's threads; at least one.
int threads_of(int threads, int rank, int ranks);

class RankTeam {
 public:
  // threads: in all.
  RankTeam(int ranks, int threads);
  int size() const { return static_cast<int>(pools_.size()); }
  ThreadPool& pool(int rank) { return pools_[static_cast<size_t>(rank)]; }

  // body(rank, comm) for each rank of the layout, rank 0 in the calling thread; comm has the ranks of its group. Rethrows
  // the first error that is a rank's own; the others stop where they wait for that rank. Warnings are the calling thread's.
  void run(const RankLayout& layout, const std::function<void(int rank, Comm& comm)>& body);

 private:
  std::deque<ThreadPool> pools_;
};

}  // namespace tachy::runtime
