// How the ranks of a run find one another. A rank that waits listens at a port, where anybody may come: it
// keeps a bounded number of guests, reads at most the bytes of a greeting from each (greeting.h), gives each
// a few seconds, and lets in only the ranks that it awaits. Everybody else changes nothing.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "distributed/mesh.h"

namespace tachy::distributed {

struct Terms {
  std::string secret;
  int rank = 0, ranks = 1;
  Clock::time_point until;                    // everybody must be there by then
  const std::atomic<bool>* cancel = nullptr;  // ends the wait; may be null
  double seconds = 60;                        // the whole time, for messages
};

// Lets in all ranks above terms.rank, each once: calls come(rank, socket). Throws device if one is missing at
// the end, and says who tried in vain.
void let_in(const os::Socket& listener, const Terms& terms,
            const std::function<void(int rank, os::Socket socket)>& come);

// Connects to rank `to`, which waits at the port of one of the addresses, and tries until it is there; the
// addresses are asked for anew each time, since a name may not be known yet. Throws invalid_argument if that
// rank refuses this one, and device if nobody is there at the end. `where` names the place in messages.
using Addresses = std::function<std::vector<os::IpAddress>()>;
os::Socket knock(const Addresses& addresses, uint16_t port, int to, const Terms& terms,
                 const std::string& where);

}  // namespace tachy::distributed
