// The ranks of a pass on GPUs of one host: a thread, a queue and a communicator for each.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "runtime/peer_comm.h"
#include "runtime/rank_team.h"

namespace tachy::runtime {

class PeerTeam {
 public:
  // One GPU for each rank of the layout. Throws what join_peers throws.
  PeerTeam(const RankLayout& layout, std::vector<std::shared_ptr<cuda::Gpu>> gpus);
  const RankLayout& layout() const { return layout_; }
  PeerComm& comm(int rank) { return comms_[static_cast<size_t>(rank)]; }

  // Calls body(rank) for each rank, the first one in the calling thread, and waits for all queues. When it
  // returns, every rank's work is done on its device. Rethrows the first error that a rank itself caused; the
  // team is useless then.
  void run(const std::function<void(int rank)>& body);

 private:
  const RankLayout layout_;
  const std::vector<std::shared_ptr<cuda::Gpu>> gpus_;
  std::deque<MeetingPlace> places_;
  std::vector<std::unique_ptr<cuda::PeerGroup>> groups_;
  std::deque<PeerComm> comms_;
};

}  // namespace tachy::runtime
