// The state that all connections to one world share. All of it belongs to the server's single thread. Private
// to src/serve.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/access.h"
#include "http/net_types.h"
#include "serve/world_player.h"

namespace tachy::serve {

// The sockets and checks of src/http that this folder uses. Its own `http` is Beast's (http_reply.h).
using tachy::http::Acceptor;
using tachy::http::Access;
using tachy::http::Executor;
using tachy::http::is_loopback;
using tachy::http::path_of;
using tachy::http::query_value;
using tachy::http::random_token;
using tachy::http::Socket;
using tachy::http::TcpStream;
using tachy::http::Timer;

class SocketSession;

struct Hub {
  Hub(Executor sockets, PlayerOptions play)
      : executor(std::move(sockets)), options(std::move(play)), shelf(std::make_shared<RecordingShelf>()) {}
  const PageLimits& limits() const { return options.limits; }
  bool tickets() const { return static_cast<bool>(ticket); }  // whether the page must ask for one
  bool busy() const { return visitor != nullptr || (others && others()); }

  const Executor executor;
  const PlayerOptions options;
  std::optional<Access> access;  // none: a gate has looked at the request before it came here
  // Connections count here; some end only with the server's sockets, when this hub is gone.
  const std::shared_ptr<int> connections = std::make_shared<int>(0);
  std::shared_ptr<RecordingShelf> shelf;  // recordings are there for longer than a world is open

  // The open world; null until somebody has opened it. Without a door it is open from the start.
  SteeredWorld* world = nullptr;
  std::unique_ptr<WorldPlayer> player;
  // The visitor who has the world, from the request until the connection has ended. The world is open then.
  std::shared_ptr<SocketSession> visitor;

  // A door (world_door.h) adds these; without one they are empty.
  std::string name;              // of the world, as in its address
  std::function<bool()> others;  // whether another world of the device has a visitor, or waits for one
  std::function<bool(const std::string& ticket)> ticket;  // whether it is a good one
  std::function<void(std::shared_ptr<SocketSession>)>
      enter;                   // opens the world, then calls the visitor's begin()
  std::function<void()> left;  // the visitor has gone
};

}  // namespace tachy::serve
