// The state that all connections of a server share. All of it belongs to the server's single thread. Private
// to src/serve.
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

  int connections = 0;  // declared before io, whose end closes the last connections
  boost::asio::io_context io{1};
  SteeredWorld& world;
  Access access;
  RecordingShelf shelf;
  WorldPlayer player;
  // The visitor who has the world, from the request until the connection has ended.
  std::shared_ptr<SocketSession> visitor;
};

}  // namespace tachy::serve
