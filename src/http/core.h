// The state that the connections of a server share. All of it belongs to the sockets' thread, but for the
// pools, the spool, the options and the router, which do not change. Private to src/http.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "http/lane_pool.h"
#include "http/net_types.h"
#include "http/router.h"
#include "http/server.h"
#include "http/spool.h"

namespace tachy::http {

class Connection;

// Hands work to the sockets' thread, from any thread, even after the server has gone.
class Door {
 public:
  explicit Door(boost::asio::io_context& io) : io_(&io) {}
  template <class F>
  void post(F&& work) {
    const std::lock_guard lock(mutex_);
    if (io_) boost::asio::post(*io_, std::forward<F>(work));
  }
  void close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context* io_;
};

struct Core {
  Core(Router r, ServerOptions o)
      : options(std::move(o)),
        router(std::move(r)),
        spool(options.spool),
        door(std::make_shared<Door>(io)),
        quick(options.quick_threads, options.limits.quick_waiting),
        slow(options.slow_threads, options.limits.slow_waiting) {}
  ~Core() {
    // Tasks hand their results to `io`, which keeps them until it is destroyed itself.
    quick.stop(), slow.stop(), files.stop();
    door->close();
  }
  LanePool& lane(Lane which) { return which == Lane::quick ? quick : slow; }

  const ServerOptions options;
  const Router router;
  const Spool spool;
  // These are declared before io, whose end closes the last connections.
  std::unordered_set<Connection*> connections;
  std::list<Connection*> idle;  // those whose request has not come, or not whole; the longest waiting first
  bool stopping = false;
  boost::asio::io_context io{1};
  std::shared_ptr<Door> door;
  LanePool quick, slow;
  // Writes bodies to the disk and reads files from it, a piece at a time; each connection has one task at
  // most here.
  LanePool files{2, static_cast<size_t>(-1)};
};

}  // namespace tachy::http
