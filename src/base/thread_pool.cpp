#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/notice.h"
#include "base/os/processors.h"

// Provided by the OpenMP runtime that oneDNN uses. omp.h is not included, since it belongs to a compiler.
extern "C" void omp_set_num_threads(int);

namespace tachy {
namespace {

// Ops within a step are microseconds apart, and waking a sleeping thread takes 50 or more. So a waiting
// thread polls for this long before it sleeps.
constexpr std::chrono::microseconds kLook{100};

constexpr size_t kOpenMpSettings = 216;  // size of libgomp's record for a thread

// Polls for a while, and says whether `ready` became true.
template <class Ready>
bool look_for(Ready&& ready) {
  const auto end = std::chrono::steady_clock::now() + kLook;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  int threads = 1;
  bool looks = false;  // false if threads share processors, where polling would keep others from working

  std::mutex turn;  // held by the caller that the workers serve
  std::mutex mutex;
  std::condition_variable wake, done;
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};  // workers that have not finished the current generation
  std::atomic<int> ready{0};    // workers that have started, or failed to
  std::atomic<bool> starved{false};

  const std::function<void(int64_t, int)>* body = nullptr;
  int64_t tiles = 0;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  bool collects = false;           // a LineScope takes the caller's lines
  std::vector<std::string> lines;  // lines that workers have reported in the meantime

  static thread_local int current_worker;  // -1 outside a body

  void drain(int worker) {
    current_worker = worker;
    for (;;) {
      const int64_t tile = next.fetch_add(1, std::memory_order_relaxed);
      if (tile >= tiles) break;
      try {
        (*body)(tile, worker);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(tiles, std::memory_order_relaxed);
      }
    }
    current_worker = -1;
  }

  void serve(int worker) {
    if (!collects) return drain(worker);
    const LineScope told([this](std::string_view text) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(text);
    });
    drain(worker);
  }

  // Runs one tile on the calling thread.
  static void alone(const std::function<void(int64_t, int)>& tile_body, int64_t tile) {
    struct Inside {
      Inside() { current_worker = 0; }
      ~Inside() { current_worker = -1; }
    } const inside;
    tile_body(tile, 0);
  }

  void end() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (auto& worker : workers) worker.join();
  }

  // OpenMP runtimes end the process if they get no memory for a thread's first settings. This allocates and
  // frees a block of that size, which stays in this thread's own cache, so that they will get it.
  bool begin() {
    void* volatile settings = std::malloc(kOpenMpSettings);
    if (settings) {
      std::free(settings);
      omp_set_num_threads(1);
    } else {
      starved = true;
    }
    ready.fetch_add(1);
    ready.notify_one();
    return settings != nullptr;
  }

  void work(int worker) {
    if (!begin()) return;
    uint64_t seen = 0;
    const auto called = [&] { return stop.load() || generation.load() != seen; };
    for (;;) {
      if (!(looks && look_for(called))) {
        std::unique_lock lock(mutex);
        wake.wait(lock, called);
      }
      if (stop) return;
      seen = generation;
      serve(worker);
      if (running.fetch_sub(1) != 1) continue;
      std::lock_guard lock(mutex);  // the caller may be between its check and its sleep
      done.notify_one();
    }
  }
};

thread_local int ThreadPool::State::current_worker = -1;

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  require(threads >= 1 && threads <= 1024, "threads: expected 1 to 1024, got {}", threads);
  state_->threads = threads;
  state_->looks = threads <= available_processors();
  try {
    for (int i = 1; i < threads; ++i) state_->workers.emplace_back([s = state_.get(), i] { s->work(i); });
    for (int begun = 0; (begun = state_->ready) < threads - 1;) state_->ready.wait(begun);
  } catch (const std::system_error& e) {
    const size_t started = state_->workers.size();
    state_->end();  // the destructor does not run after an exception here
    fail(ErrorCode::out_of_memory, "`threads`: cannot start thread {} of {}: {}; fewer may work", started + 2,
         threads, e.code().message());
  }
  if (!state_->starved) return;
  state_->end();
  fail(ErrorCode::out_of_memory, "`threads`: no memory left to run {} threads; fewer may work", threads);
}

ThreadPool::~ThreadPool() { state_->end(); }

bool ThreadPool::in_body() { return State::current_worker >= 0; }

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int64_t tiles, const std::function<void(int64_t, int)>& body) {
  if (tiles <= 0) return;
  // The calling thread works, too, and the team size is set per thread, so it is set here as well.
  omp_set_num_threads(1);
  if (State::current_worker >= 0 || state_->threads == 1 || tiles == 1) {
    const int worker = std::max(0, State::current_worker);
    for (int64_t tile = 0; tile < tiles; ++tile) body(tile, worker);
    return;
  }
  State& s = *state_;
  // While the workers serve another caller, this one runs its tiles alone, until they are free.
  std::unique_lock turn(s.turn, std::try_to_lock);
  int64_t first = 0;
  for (; !turn.owns_lock() && first < tiles; ++first) {
    s.alone(body, first);
    turn.try_lock();
  }
  if (first == tiles) return;
  {
    std::lock_guard lock(s.mutex);
    s.body = &body;
    s.tiles = tiles;
    s.next.store(first);
    s.error = nullptr;
    s.collects = lines_are_taken();
    s.running = s.threads - 1;
    ++s.generation;
  }
  s.wake.notify_all();
  s.drain(0);
  const auto finished = [&] { return s.running.load() == 0; };
  if (!(s.looks && look_for(finished))) {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, finished);
  }
  const std::exception_ptr error = s.error;
  const std::vector<std::string> lines = std::exchange(s.lines, {});
  turn.unlock();  // the receiver of a line may itself call the pool
  for (const std::string& line : lines) say_line(line);
  if (error) std::rethrow_exception(error);
}

int available_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (const auto allowed = os::allowed_processors()) count = *allowed;
  if (const double quota = os::processor_quota(); quota > 0)
    count = std::min(count, std::max(1, static_cast<int>(std::floor(quota + 0.5))));
  return std::max(1, count);
}

}  // namespace tachy
