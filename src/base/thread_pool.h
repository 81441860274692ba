// One pool of worker threads for the whole process.
//
// Work is a number of tiles whose size must not depend on the thread count; workers (and the calling thread)
// take tiles from a shared counter, so results are bit-identical for any number of threads and a busy
// neighbour process delays one tile, not a static share. Workers pin their OpenMP team size to one: the
// vendor library runs single-threaded inside a tile and no OpenMP team is ever started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tachy {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // total, the calling thread included; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(tile, worker) for each tile in [0, tiles), worker in [0, threads()). Returns when all are done. The first
  // exception thrown by a body is rethrown here; remaining tiles are skipped. A LineScope of the caller takes what bodies warn of.
  // Calls made from inside a body run inline. Of several threads that call at once the workers serve one, others run alone.
  void run(int64_t tiles, const std::function<void(int64_t tile, int worker)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Processors this process may use: affinity mask and the
// container's CPU quota (cgroup v1 and v2), at least 1.
int available_processors();

}  // namespace tachy
