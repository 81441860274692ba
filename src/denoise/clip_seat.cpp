// A clip's pass where each rank has a denoiser of its own (rank_seats.h): this one computes its rank's share.
#include <algorithm>

#include "denoise/clip_denoiser.h"

namespace tachy {

// Returns whether it could: what branches of the network have added is known to them alone.
bool ClipDenoiser::copy_contexts(const std::vector<WanContext>& from) {
  if (from.empty() || !std::ranges::all_of(from, [](const WanContext& c) { return c.more.empty(); }))
    return false;
  const auto copy = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const Tensor out = store_.allocate(t.dtype, t.shape());
    stream_.memory->copy(out.data, t.data, static_cast<size_t>(t.bytes()));  // from another GPU
    return out;
  };
  std::vector<WanContext>& contexts = pass_->contexts;
  for (size_t i = 0; i < from.size(); ++i)
    if (i > 0 && from[i].k.data == from[i - 1].k.data) {
      contexts.push_back(contexts.back());
    } else {
      WanContext& mine = contexts.emplace_back();
      mine.k = copy(from[i].k), mine.v = copy(from[i].v), mine.key_bias = copy(from[i].key_bias);
    }
  return true;
}

// Ranks that exchange do the same things in the same order: each runs its pass, captures it or launches it when
// the others do. The first pass of a kind may load kernels, so its exchanges are careful (peer_comm.h), unless a job
// before this one has run it: then it may be captured now, which a careful exchange cannot be.
// A pass that reuses what blocks added is never captured, as without ranks.
void ClipDenoiser::forward_in_seat(int kind, const Tensor& velocity) {
  const int group = seat_->layout.group_of(seat_->rank), ring = seat_->layout.ring;
  runtime::Comm* const comm = seat_->layout.per_group > 1 ? seat_->comm : nullptr;
  runtime::PeerComm* const peers = comm ? seat_->peers : nullptr;
  const runtime::StepSignature now = signature(velocity);
  const bool may_graph =
      graph_ && std::ranges::none_of(pass_->inputs, [](const auto& i) { return i.wan.reuses; });
  if (peers) {
    bool first = kinds_.insert(kind).second;
    if (first && may_graph) first = peers->most(graph_->knows(now) ? 0 : 1) > 0;
    peers->set_careful(first);
  }
  const auto body = [pass = pass_, velocity, stream = &stream_, group, ring, comm] {
    pass->forward(group, comm, ring, velocity, *stream);
  };
  if (!may_graph) return body();
  runtime::StepGraph::Agree agree;
  if (peers) agree = [peers](double mine) { return peers->most(mine); };
  graph_->run(stream_, now, body, agree);
}

}  // namespace tachy
