// The page of a world: HTML, pictures as they are made, keys and mouse as they are pressed, on one port for
// HTTP and WebSocket.
//
//   serve::PageServer server(*serve::steered(World("models/world", {})), {.start = {.image = picture}});
//   print(server.url());
//   server.run(&cancel);
//
// One visitor at a time has the world; others are told so (503). By default it listens only on this machine;
// elsewhere a token is needed. Host and Origin of each request are checked (403), everything that a visitor
// sends has a limit (limits.h), and no part of a request names a file.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "serve/world_player.h"

namespace tachy::serve {

struct PageOptions {
  std::string host = "127.0.0.1";  // an address or a name of this machine
  int port = 8190;                 // 0: any free port
  std::string token;               // "": none if it listens only on this machine, otherwise a random one
  PlayerOptions play;
};

// Throws invalid_argument for a wrong option; PageServer calls this, too.
void check_options(const PageOptions& options);

class PageServer {
 public:
  // Listens from here on. Throws invalid_argument for a wrong option, and io (with the system's reason) if it
  // cannot listen there.
  PageServer(SteeredWorld& world, const PageOptions& options);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  std::string url() const;  // the address to open, with the token if one is needed

  // Serves until stop() is called (in any thread), or until *cancel is true.
  void run(const std::atomic<bool>* cancel = nullptr);
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::serve
