// The worlds of a server that does other things as well: the page of each, under /world/NAME, on the connections of
// an http::Server.
//
//   serve::WorldDoor door({.names = {"world"}, .open = …, .make_room = …});
//   door.add_routes(router);
//   http::Server server(std::move(router), …);
//   server.run(&cancel);
//   door.close();  // before the server is gone
//
// One visitor at a time has one of the worlds. A world is opened for its first visitor, in a thread of the door, and
// the device is cleared for it; when nobody has visited it for a short while it is closed, and only then others get
// the device back, since they could not know what fits beside a world that stays.
//
// The page is for everybody who the server's gate lets in. Where there are keys, its files and the socket are open;
// a socket then begins with a ticket, unless its request had a key, and everything else needs a key.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/router.h"
#include "serve/world_player.h"

namespace tachy::serve {

struct OpenedWorld {
  std::unique_ptr<SteeredWorld> world;
  WorldStart start;  // each visit begins with this
};

struct WorldDoorOptions {
  std::vector<std::string> names;  // letters, digits, ".", "-" and "_"
  // Opens a world. It may take its time; what it throws is said on the page.
  std::function<OpenedWorld(const std::string& name)> open;
  // Clears the device, and keeps it clear until what it returns is dropped. It may take its time.
  std::function<std::shared_ptr<void>()> make_room;
  // Takes a ticket and says whether it was good; empty: nobody needs one. It must not wait.
  std::function<bool(const std::string& ticket)> ticket = {};
  PlayerOptions play = {};                  // of every world, but for its start
  std::chrono::milliseconds linger{3'000};  // for a page that is loaded again
};

class WorldDoor {
 public:
  explicit WorldDoor(WorldDoorOptions options);
  ~WorldDoor();  // as close()
  WorldDoor(const WorldDoor&) = delete;
  WorldDoor& operator=(const WorldDoor&) = delete;

  void add_routes(tachy::http::Router& router);
  // Ends the visit and closes the world. To be called once the server no longer runs, and before it is gone.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tachy::serve
