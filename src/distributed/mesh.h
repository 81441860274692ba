// The connections of one rank to all others, over which frames go (frames.h).
//
// A rank that ends tells the others why in a last frame. One that is killed says nothing, but its system
// closes its connections, and the others notice that at once.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/sockets.h"
#include "distributed/frames.h"

namespace tachy::distributed {

using Clock = std::chrono::steady_clock;

class Mesh {
 public:
  Mesh(int rank, int ranks) : rank_(rank), links_(static_cast<size_t>(ranks)) {}
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(links_.size()); }

  void put(int peer, os::Socket socket);
  void set_name(int peer, std::string name) { link(peer).name = std::move(name); }
  // "rank 2 (on node7, process 4711)"
  std::string name_of(int peer) const;
  const os::Socket& socket_of(int peer) const { return links_[static_cast<size_t>(peer)].socket; }

  // Sends and receives everything together, at most one frame to and one from each rank. Throws the error
  // of a rank that has given up, device if one is gone or does not answer until `until`, and cancelled if
  // the flag is set.
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in,
                const std::atomic<bool>* cancel = nullptr, std::optional<Clock::time_point> until = {});

  // Tells all others why this rank ends, as far as that is possible within a second. Nothing can be sent
  // afterwards.
  void end(const Error& reason) noexcept;

  // Waits so long for the end of a connection, and returns the rank, or -1. Another thread may call this
  // during a transfer.
  int gone(int milliseconds) const;
  // Returns why a rank whose connection has ended did so.
  Error reason_of(int peer);

 private:
  struct Link {
    os::Socket socket;
    std::string name;
    uint64_t unread = 0;  // content of a frame that a transfer has left behind
    bool torn = false;    // where the next frame begins is not known
  };
  class Transfer;
  Link& link(int peer) { return links_[static_cast<size_t>(peer)]; }

  int rank_;
  bool ended_ = false;
  std::vector<Link> links_;
};

}  // namespace tachy::distributed
