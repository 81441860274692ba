// A clip's pass where each rank has a denoiser of its own (rank_seats.h): this one computes its rank's share.
#include <algorithm>

#include "denoise/clip_denoiser.h"

namespace tachy {

// Ranks that exchange do the same things in the same order: each runs its pass, captures it or launches it when
// the others do. The first pass of a kind may load kernels, so its exchanges are careful (peer_comm.h).
// A pass that reuses what blocks added is never captured, as without ranks.
void ClipDenoiser::forward_in_seat(int kind, const Tensor& velocity) {
  const int group = seat_->layout.group_of(seat_->rank), ring = seat_->layout.ring;
  runtime::Comm* const comm = seat_->layout.per_group > 1 ? seat_->comm : nullptr;
  runtime::PeerComm* const peers = comm ? seat_->peers : nullptr;
  if (peers) peers->set_careful(kinds_.insert(kind).second);
  const auto body = [pass = pass_, velocity, stream = &stream_, group, ring, comm] {
    pass->forward(group, comm, ring, velocity, *stream);
  };
  if (!graph_ || std::ranges::any_of(pass_->inputs, [](const auto& i) { return i.wan.reuses; }))
    return body();
  runtime::StepGraph::Agree agree;
  if (peers) agree = [peers](double mine) { return peers->most(mine); };
  graph_->run(stream_, signature(velocity), body, agree);
}

}  // namespace tachy
