#include "serve/world_door.h"

#include <boost/asio/post.hpp>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "http/lane_pool.h"
#include "http/take_over.h"
#include "serve/http_connection.h"
#include "serve/hub.h"
#include "serve/page_files.h"
#include "serve/socket_session.h"

namespace tachy::serve {
namespace {

constexpr size_t kMostTasks = 64;
constexpr uint16_t kBusyCode = 1013,
                   kFailedCode = 1011;  // "try again later" and "internal error" of RFC 6455

// A task in the door's thread brings this back.
struct Opening {
  std::shared_ptr<void> room;
  std::unique_ptr<SteeredWorld> world;
  std::unique_ptr<WorldPlayer> player;
  std::string why;  // there is no world
};

}  // namespace

// Everything but the tasks belongs to the sockets' thread.
struct WorldDoor::State {
  explicit State(WorldDoorOptions o) : options(std::move(o)) {}

  void take_over(const std::string& name, const std::string& inner, tachy::http::HandedOver handed);
  Hub& hub_of(const std::string& name, const Executor& executor);
  bool taken() const;
  void enter(Hub& hub, std::shared_ptr<SocketSession> session);
  void open(Hub& hub);
  void opened(Opening opening);
  void welcome();
  void wait_for_others();  // closes the world if nobody comes
  void shut(std::shared_ptr<void> with_it);
  void close();

  const WorldDoorOptions options;
  std::map<std::string, std::unique_ptr<Hub>> hubs;  // made when somebody first asks for the page
  Hub* hub = nullptr;                                // whose world is open, or is being opened
  std::unique_ptr<SteeredWorld> world;               // the one that is open
  std::shared_ptr<void> room;                        // while it is held, the device is the world's
  std::shared_ptr<SocketSession> entering;           // who waits until it is open
  std::optional<Timer> lingering;
  tachy::http::LanePool tasks{1, kMostTasks};  // opens and closes worlds, one after the other
};

void WorldDoor::State::take_over(const std::string& name, const std::string& inner,
                                 tachy::http::HandedOver handed) {
  Hub& at = hub_of(name, handed.socket.get_executor());
  if (*at.connections >= at.limits().connections) return;  // the socket is closed
  std::make_shared<HttpConnection>(at, std::move(handed), inner)->answer();
}

Hub& WorldDoor::State::hub_of(const std::string& name, const Executor& executor) {
  std::unique_ptr<Hub>& made = hubs[name];
  if (made) return *made;
  made = std::make_unique<Hub>(executor, options.play);
  Hub* const one = made.get();
  one->name = name;
  one->ticket = options.ticket;
  one->others = [this] { return taken(); };
  one->enter = [this, one](std::shared_ptr<SocketSession> session) { enter(*one, std::move(session)); };
  one->left = [this] { wait_for_others(); };
  return *one;
}

bool WorldDoor::State::taken() const {
  return (entering && !entering->gone()) || (hub != nullptr && hub->visitor != nullptr);
}

void WorldDoor::State::enter(Hub& at, std::shared_ptr<SocketSession> session) {
  // While a world is being opened for somebody who has gone meanwhile, others wait as well.
  if (taken() || (entering && hub != &at)) return session->end(kBusyCode, "busy", kBusy);
  if (lingering) lingering->cancel();
  const bool opening = std::exchange(entering, std::move(session)) != nullptr;
  if (opening) return;
  if (hub == &at && world) return welcome();
  if (world) shut(nullptr);
  open(at);
}

void WorldDoor::State::open(Hub& at) {
  hub = &at;
  const auto task = [this, executor = at.executor, name = at.name, shelf = at.shelf, held = room] {
    auto opening = std::make_shared<Opening>();
    try {
      opening->room = held ? held : options.make_room();
      OpenedWorld made = options.open(name);
      PlayerOptions play = options.play;
      play.start = std::move(made.start);
      opening->world = std::move(made.world);
      opening->player = std::make_unique<WorldPlayer>(*opening->world, std::move(play), *shelf);
    } catch (const std::exception& e) {
      opening->why = e.what();
      warn("the world {} cannot be opened: {}", name, e.what());
    }
    boost::asio::post(executor, [this, opening] { opened(std::move(*opening)); });
  };
  if (!tasks.add(task))
    opened({.room = nullptr, .world = nullptr, .player = nullptr, .why = "others wait to be closed"});
}

void WorldDoor::State::opened(Opening opening) {
  room = std::move(opening.room);
  if (!opening.player) {
    const std::shared_ptr<SocketSession> session = std::exchange(entering, nullptr);
    hub = nullptr, room = nullptr;
    std::erase(opening.why, '`');  // field names in backticks mean nothing to a visitor
    session->end(kFailedCode, "unopened", "the world cannot be opened: " + opening.why);
    return;
  }
  world = std::move(opening.world);
  hub->world = world.get();
  hub->player = std::move(opening.player);
  welcome();
}

void WorldDoor::State::welcome() {
  const std::shared_ptr<SocketSession> session = std::exchange(entering, nullptr);
  if (session->gone()) return wait_for_others();
  hub->visitor = session;
  session->begin();
}

void WorldDoor::State::wait_for_others() {
  if (!lingering) lingering.emplace(hub->executor);
  lingering->expires_after(options.linger);
  lingering->async_wait([this](boost::system::error_code error) {
    if (!error && world && !entering && !taken()) shut(std::exchange(room, nullptr));
  });
}

// Closing waits until the world has stopped, so it is done by a task. What goes with the world goes last.
void WorldDoor::State::shut(std::shared_ptr<void> with_it) {
  struct Closed {
    std::shared_ptr<void> with_it;
    std::shared_ptr<RecordingShelf> shelf;
    std::unique_ptr<SteeredWorld> world;
    std::unique_ptr<WorldPlayer> player;
  };
  auto closed = std::make_shared<Closed>(
      Closed{std::move(with_it), hub->shelf, std::move(world), std::move(hub->player)});
  hub->world = nullptr;
  hub = nullptr;
  // If the queue is full, the world ends here and now.
  tasks.add([closed = std::move(closed)]() mutable { closed.reset(); });
}

void WorldDoor::State::close() {
  lingering.reset();
  tasks.stop();
  entering = nullptr;
  for (auto& [name, one] : hubs) {
    one->visitor = nullptr;
    one->player.reset();
  }
  hub = nullptr;
  world.reset();
  room.reset();
}

WorldDoor::WorldDoor(WorldDoorOptions options) : state_(std::make_shared<State>(std::move(options))) {}
WorldDoor::~WorldDoor() { close(); }

void WorldDoor::close() { state_->close(); }

void WorldDoor::add_routes(tachy::http::Router& router) {
  for (const std::string& name : state_->options.names) {
    const auto add = [&](const char* method, const std::string& inner, bool open) {
      auto take = std::make_shared<tachy::http::TakeOver>();
      take->begin = [state = state_, name, inner](tachy::http::HandedOver handed) {
        state->take_over(name, inner, std::move(handed));
      };
      router.add({.method = method,
                  .pattern = "/world/" + name + inner,
                  .handler = {},
                  .open = open,
                  .take_over = std::move(take)});
    };
    add("GET", "", true);
    add("GET", "/", true);
    for (const PageFile& file : page_files())
      if (!file.name.ends_with(".html")) add("GET", "/" + std::string(file.name), true);
    add("GET", "/socket", true);
    add("GET", "/state", false);
    add("GET", "/recording", false);
    add("POST", "/picture", false);
  }
}

}  // namespace tachy::serve
