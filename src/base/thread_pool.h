// One pool of worker threads for the whole process.
//
// Work is divided into tiles, whose size must not depend on the thread count. Workers (and the calling
// thread) take tiles from a shared counter, so results are bit-identical for any number of threads, and
// another busy process delays only one tile rather than a fixed share of the work. Workers set their OpenMP
// team size to one, so the vendor library runs single-threaded inside a tile and no OpenMP team is ever
// started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tachy {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the total number, including the calling thread; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(tile, worker) for each tile in [0, tiles), with worker in [0, threads()), and returns when all
  // are done. The first exception that a body throws is rethrown here, and the remaining tiles are skipped.
  // Calls made from inside a body run inline. If several threads call at once, the workers serve one of them
  // and the others run their tiles alone.
  void run(int64_t tiles, const std::function<void(int64_t tile, int worker)>& body);

  static bool in_body();  // says whether this thread runs a body of some pool

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the number of processors that this process may use, by the affinity mask and the container's CPU
// quota (cgroup v1 and v2); at least 1.
int available_processors();

}  // namespace tachy
