// What all connections of a server share. Everything here belongs to the server's one thread. Private to src/serve.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <utility>

#include "serve/access.h"
#include "serve/world_player.h"

namespace tachy::serve {

class SocketSession;

struct Hub {
  Hub(SteeredWorld& w, Access a, PlayerOptions play)
      : world(w), access(std::move(a)), player(w, std::move(play), shelf) {}
  const PageLimits& limits() const { return player.options().limits; }
  bool busy() const { return visitor != nullptr; }

  int connections = 0;  // before io, which ends the last of them
  boost::asio::io_context io{1};
  SteeredWorld& world;
  Access access;
  RecordingShelf shelf;
  WorldPlayer player;
  // Who has the world, from its request until its connection has ended.
  std::shared_ptr<SocketSession> visitor;
};

}  // namespace tachy::serve
