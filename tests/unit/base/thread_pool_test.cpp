// The pool runs every tile once for any number of threads, passes exceptions to the caller, runs nested calls
// inline, and never starts an OpenMP team.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

// omp.h belongs to a compiler; clang has none without libomp-dev.
extern "C" {
int omp_get_max_threads();
int omp_get_num_threads();
}

namespace tachy {
namespace {

size_t process_threads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST(ThreadPool, EachTileOnce) {
  for (int threads : {1, 2, 3, 8, 17}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tiles : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(tiles));
      std::atomic<bool> in_range{true};
      pool.run(tiles, [&](int64_t tile, int worker) {
        ++seen[static_cast<size_t>(tile)];
        if (worker < 0 || worker >= threads) in_range = false;
      });
      for (const auto& count : seen) EXPECT_EQ(count, 1);
      EXPECT_TRUE(in_range);
    }
  }
}

// The workers serve one caller; the others run their tiles themselves until it is their turn.
TEST(ThreadPool, SeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0}, thrown{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 200; ++round) {
        std::vector<std::atomic<int>> seen(40);
        std::atomic<int> busy[3] = {};
        try {
          pool.run(40, [&](int64_t tile, int worker) {
            if (busy[worker].fetch_add(1) != 0) ++wrong;
            pool.run(2, [&](int64_t, int inner) { wrong += inner != worker; });
            ++seen[static_cast<size_t>(tile)];
            busy[worker].fetch_sub(1);
            if (caller == 3 && tile == 20) fail(ErrorCode::io, "tile {}", tile);
          });
          for (const auto& count : seen) wrong += count != 1;
        } catch (const Error&) {
          ++thrown;
        }
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(thrown, 200);
}

TEST(ThreadPool, WorkersDoNotShareAnIndex) {
  ThreadPool pool(4);
  std::atomic<int> busy[4] = {};
  std::atomic<bool> shared{false};
  pool.run(400, [&](int64_t, int worker) {
    if (busy[worker].fetch_add(1) != 0) shared = true;
    std::this_thread::yield();
    busy[worker].fetch_sub(1);
  });
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, ManyShortRuns) {
  ThreadPool pool(3);
  std::atomic<int64_t> total{0};
  for (int i = 0; i < 3000; ++i) pool.run(3, [&](int64_t tile, int) { total += tile; });
  EXPECT_EQ(total, 3000 * 3);
}

TEST(ThreadPool, ExceptionsReachTheCallerAndThePoolLives) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    constexpr int64_t kTiles = 1'000'000'000;  // more than others run while the one that fails is held up
    std::atomic<int64_t> ran{0};
    try {
      pool.run(kTiles, [&](int64_t tile, int) {
        ++ran;
        if (tile == 5) fail(ErrorCode::numerical, "tile {}", tile);
        std::this_thread::yield();
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::numerical);
      EXPECT_EQ(error.message(), "tile 5");
    }
    EXPECT_LT(ran, kTiles);  // the remaining tiles are skipped
    ran = 0;
    pool.run(50, [&](int64_t, int) { ++ran; });
    EXPECT_EQ(ran, 50);
  }
}

TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(4);
  std::atomic<int> inner{0};
  std::atomic<bool> moved{false};
  pool.run(16, [&](int64_t, int outer) {
    const auto self = std::this_thread::get_id();
    pool.run(10, [&](int64_t, int worker) {
      ++inner;
      if (worker != outer || std::this_thread::get_id() != self) moved = true;
    });
  });
  EXPECT_EQ(inner, 160);
  EXPECT_FALSE(moved);
}

TEST(ThreadPool, RefusesSenselessSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(100000), Error);
}

TEST(ThreadPool, StartsNoOpenMpTeam) {
  // Threads of the tests before this one may take a moment to leave /proc.
  for (int i = 0; i < 1000 && process_threads() != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const size_t before = process_threads();
  {
    ThreadPool pool(4);
    std::atomic<int> widest{0};
    std::mutex mutex;
    std::set<std::thread::id> used;
    pool.run(64, [&](int64_t, int) {
      const auto note = [&](int now) {
        for (int seen = widest; now > seen && !widest.compare_exchange_weak(seen, now);) {
        }
      };
      // Notes what a library compiled with OpenMP would get and do inside a tile.
      note(omp_get_max_threads());
#ifdef _OPENMP
#pragma omp parallel
      note(omp_get_num_threads());
#endif
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      used.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(widest, 1);
    EXPECT_GT(used.size(), 1u);
    EXPECT_EQ(process_threads(), before + 3);
  }
  // A joined thread's entry may take a moment to leave /proc.
  for (int i = 0; i < 1000 && process_threads() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(process_threads(), before);
}

TEST(ThreadPool, AvailableProcessors) {
  EXPECT_GE(available_processors(), 1);
  EXPECT_LE(available_processors(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace tachy
