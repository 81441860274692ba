// The state that all connections of a server share. All of it belongs to the server's single thread. Private
// to src/serve.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <utility>

#include "http/access.h"
#include "http/net_types.h"
#include "serve/world_player.h"

namespace tachy::serve {

// The sockets and checks of src/http that this folder uses. Its own `http` is Beast's (http_reply.h).
using tachy::http::Acceptor;
using tachy::http::Access;
using tachy::http::is_loopback;
using tachy::http::path_of;
using tachy::http::query_value;
using tachy::http::random_token;
using tachy::http::Socket;
using tachy::http::TcpStream;
using tachy::http::Timer;

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
