// A denoiser's place among ranks that have a denoiser each (rank_seats.h).
#pragma once

#include <functional>
#include <vector>

#include "runtime/peer_comm.h"
#include "runtime/rank_team.h"

namespace tachy {

struct WanContext;

struct RankSeat {
  runtime::RankLayout layout;
  int rank = 0;
  runtime::Comm* comm = nullptr;  // connects the rank's group
  runtime::PeerComm* peers =
      nullptr;  // the same one; null where there are no GPUs, as in a measuring session
  // The keys and values of the prompts: the first rank leaves its own here, and further ones copy them. Null: each makes
  // them.
  std::vector<WanContext>* contexts = nullptr;
};

// Lets each rank do body(rank), when the first one's device has done what is queued there, and returns when all devices
// have done their work.
using RunRanks = std::function<void(const std::function<void(int rank)>& body)>;

}  // namespace tachy
