// The ranks of one process that have a GPU each, while they divide the passes of one network: their seats, what each
// holds on its GPU, and a way to let all do something at once. Denoisers that sit there divide a clip
// (ranks_denoiser.h) or a block (ranks_causal.h).
//
// A measuring session has no further GPUs. There the ranks come one after the other, and only the first one's work is
// counted, since the others do theirs meanwhile.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "denoise/rank_seat.h"
#include "runtime/nobody_else.h"
#include "session/session.h"

namespace tachy {

// Returns a copy on a rank's device of a tensor on the first one's. A tensor that is undefined or on the host stays as
// it is.
using Bring = std::function<Tensor(const Tensor&)>;

class RankSeats {
 public:
  // The session holds the expert's transformer on the first GPU.
  RankSeats(const runtime::RankLayout& layout, int expert, Session& session);
  ~RankSeats();
  RankSeats(const RankSeats&) = delete;
  RankSeats& operator=(const RankSeats&) = delete;

  const runtime::RankLayout& layout() const { return layout_; }
  bool measuring() const { return !team_; }
  const RankSeat& seat(int rank) const { return places_[static_cast<size_t>(rank)].seat; }
  Stream& stream(int rank) {
    return rank == 0 || measuring() ? session_.stream() : session_.devices()->place(rank).stream;
  }
  // Of what a further rank holds on its GPU besides its denoiser.
  nn::ParamStore& store(int rank) { return *places_[static_cast<size_t>(rank)].store; }

  // Calls body(rank) for all ranks, each in its thread, when the first GPU has done what is queued there. When it
  // returns, all GPUs have done their work.
  void run(const std::function<void(int rank)>& body);
  // Loads a further rank's transformer and adapters, in its thread, and returns how tensors get to its GPU.
  Bring settle(int rank);

 private:
  struct Place {
    RankSeat seat;
    std::optional<nn::ParamStore> store;
    std::vector<std::pair<const void*, Tensor>> copies;
  };
  const runtime::RankLayout layout_;
  const int expert_;
  Session& session_;
  runtime::PeerTeam* team_ = nullptr;      // null in a measuring session
  std::deque<runtime::NobodyElse> alone_;  // the ranks' communicators in a measuring session
  std::deque<Place> places_;
  std::vector<WanContext> contexts_;  // the first rank's, if layers that make them lie on no GPU
};

}  // namespace tachy
