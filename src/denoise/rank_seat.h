// A denoiser's place among ranks that have a denoiser each (rank_seats.h).
#pragma once

#include "runtime/peer_comm.h"
#include "runtime/rank_team.h"

namespace tachy {

struct RankSeat {
  runtime::RankLayout layout;
  int rank = 0;
  runtime::Comm* comm = nullptr;  // connects the rank's group
  runtime::PeerComm* peers =
      nullptr;  // the same one; null where there are no GPUs, as in a measuring session
};

}  // namespace tachy
