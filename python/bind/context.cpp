#include "bind/context.h"

#include <algorithm>
#include <deque>
#include <map>
#include <ranges>
#include <vector>

#include "base/os/process.h"
#include "cuda/current_device.h"
#include "cuda/gpu.h"

// The pool allows no OpenMP team on a thread that calls it. Torch may use the same OpenMP runtime, and its
// own ops must run as before, so a call restores the setting that it found.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace tachy::python {
namespace {

struct Threads {
  std::mutex mutex;
  std::shared_ptr<ThreadPool> pool;
  int wanted = 0;
};
Threads* g_threads = new Threads;  // never destroyed: calls may come until the process ends

// The child of a fork has none of its parent's threads, and one of these may have held a mutex, which stays
// locked for ever.
void forget_threads() {
  const int wanted = g_threads->wanted;
  g_threads = new Threads;
  g_threads->wanted = wanted;
}

std::shared_ptr<ThreadPool> the_pool() {
  [[maybe_unused]] static const bool registered = (os::call_in_forked_child(forget_threads), true);
  const std::lock_guard lock(g_threads->mutex);
  if (!g_threads->pool) {
    const int wanted = g_threads->wanted;
    g_threads->pool = std::make_shared<ThreadPool>(wanted ? wanted : available_processors());
  }
  return g_threads->pool;
}

// This thread's blocks, which each call takes in order. Memory beyond this limit is freed after a call.
constexpr size_t kKeptBytes = size_t{16} << 20;
thread_local std::deque<Buffer> t_blocks;

// This limit is for a thread on the CPU; beyond it the least recently used tables are dropped.
constexpr size_t kTableBytes = size_t{64} << 20;

}  // namespace

// A Gpu and its queue.
class Queue {
 public:
  explicit Queue(std::unique_ptr<cuda::Gpu> gpu) : gpu(std::move(gpu)) {}
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<DeviceMemory> memory;  // from the caller's framework, once a caller has given one
  std::mutex mutex;
};

namespace {

// Tables of a thread on the CPU, or of a GPU. A GPU's tables stay: a captured graph may read them at any
// time.
class Tables {
 public:
  void* find(const std::string& words) {
    const auto found = tables_.find(words);
    if (found == tables_.end()) return nullptr;
    found->second.used = ++clock_;
    return found->second.buffer.data();
  }
  void keep(const std::string& words, Buffer buffer) { tables_[words] = {std::move(buffer), ++clock_}; }
  // Drops the least recently used tables until at most this many bytes are left.
  void shrink(size_t most) {
    size_t bytes = 0;
    for (const auto& [name, table] : tables_) bytes += table.buffer.size();
    while (bytes > most && !tables_.empty()) {
      const auto oldest = std::ranges::min_element(tables_, {}, [](const auto& t) { return t.second.used; });
      bytes -= oldest->second.buffer.size();
      tables_.erase(oldest);
    }
  }

 private:
  struct Table {
    Buffer buffer;
    uint64_t used = 0;
  };
  std::map<std::string, Table> tables_;
  uint64_t clock_ = 0;
};

// A GPU's own queue, which is never captured, and its tables.
struct Home {
  explicit Home(int index) : gpu(cuda::open_gpu(index)) {}
  std::unique_ptr<cuda::Gpu> gpu;
  std::mutex mutex;
  Tables tables;
};

Home& home_of(int index) {
  static std::mutex mutex;
  static auto* homes = new std::map<int, std::unique_ptr<Home>>;
  const std::lock_guard lock(mutex);
  auto& home = (*homes)[index];
  const cuda::CurrentDevice back(index);  // opening a GPU changes the caller's choice
  if (!home) home = std::make_unique<Home>(index);
  return *home;
}

// A thread's most recent queue is found without a search: queues stay as long as the process lives.
Queue& queue_of(const Place& place) {
  static std::mutex mutex;
  static auto* queues = new std::map<std::pair<int, void*>, std::unique_ptr<Queue>>;
  struct Last {
    std::pair<int, void*> key;
    Queue* queue = nullptr;
  };
  thread_local Last last;
  const std::pair<int, void*> key{place.device.index, place.queue};
  if (last.queue && last.key == key) return *last.queue;
  const std::lock_guard lock(mutex);
  auto& queue = (*queues)[key];
  if (queue) {
    last = {key, queue.get()};
    return *queue;
  }
  const cuda::CurrentDevice back(place.device.index);  // opening a GPU changes the caller's choice
  queue = std::make_unique<Queue>(cuda::open_gpu(place.device.index, cuda::OutsideQueue{place.queue}));
  return *queue;
}

}  // namespace

Context::Context(const Place& place) : pool_(the_pool()), team_(omp_get_max_threads()) {
  stream_.arena = &none_;
  stream_.pool = pool_.get();
  if (place.device.type != DeviceType::cuda) return;
  // The lines below keep the caller's device and capture as they are, which takes the kernels' runtime.
  if (!cuda::kernels_here()) cuda::gpu_count();
  leave_.emplace();
  queue_ = &queue_of(place);
  turn_ = std::unique_lock(queue_->mutex);
  stream_.gpu = queue_->gpu.get();
  if (place.memory && !queue_->memory) queue_->memory = place.memory(*stream_.gpu);
  stream_.memory = place.memory ? queue_->memory.get() : static_cast<DeviceMemory*>(stream_.gpu);
}

Context::~Context() {
  omp_set_num_threads(team_);
  size_t kept = 0;
  for (const Buffer& block : t_blocks) kept += block.size();
  while (!on_gpu() && kept > kKeptBytes) {
    kept -= t_blocks.back().size();
    t_blocks.pop_back();
  }
}

Tensor Context::scratch(DType dtype, std::span<const int64_t> dims) {
  size_t bytes = static_cast<size_t>(dtype_size(dtype));
  for (const int64_t d : dims) bytes *= static_cast<size_t>(d);
  if (on_gpu()) return {piece(bytes), dtype, dims, stream_.device()};
  if (taken_ == t_blocks.size()) t_blocks.emplace_back();
  Buffer& block = t_blocks[taken_++];
  if (block.size() < bytes || !block.data()) {
    block = Buffer();
    block = Buffer(bytes);
  }
  return {block.data(), dtype, dims};
}

// Small pieces of one call share an allocation, because an allocation costs a microsecond.
void* Context::piece(size_t bytes) {
  constexpr size_t kShared = size_t{64} << 10;
  const size_t size = align_up(std::max<size_t>(1, bytes));
  if (size > free_) {
    if (size > kShared) return held_.insert(held_.begin(), Buffer(size, stream_.memory))->data();
    held_.emplace_back(kShared, stream_.memory);
    free_ = kShared;
  }
  char* const end = static_cast<char*>(held_.back().data()) + held_.back().size();
  void* const here = end - free_;
  free_ -= size;
  return here;
}

void Context::compute(FunctionRef<void(Stream&)> body) {
  Arena counting;
  Stream measure = stream_;
  measure.arena = &counting;
  body(measure);
  if (counting.peak() == 0) return body(stream_);
  Arena arena(counting.peak(), stream_.memory);
  Stream computing = stream_;
  computing.arena = &arena;
  body(computing);
}

Tensor Context::table(const std::string& words, DType dtype, std::initializer_list<int64_t> dims,
                      FunctionRef<void(const Tensor&)> make) {
  thread_local Tables of_thread;
  Home* home = on_gpu() ? &home_of(stream_.gpu->info().index) : nullptr;
  const auto turn = home ? std::unique_lock(home->mutex) : std::unique_lock<std::mutex>();
  Tables& tables = home ? home->tables : of_thread;
  if (void* data = tables.find(words)) return {data, dtype, dims, stream_.device()};
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  const size_t bytes = static_cast<size_t>(count) * static_cast<size_t>(dtype_size(dtype));
  Buffer made(bytes);
  make(made.tensor(dtype, dims));
  if (home) {
    Buffer there(bytes, home->gpu.get());
    home->gpu->upload(there.data(), made.data(), bytes);
    home->gpu->synchronize();  // other queues read the table
    made = std::move(there);
  } else {
    tables.shrink(kTableBytes - std::min(kTableBytes, bytes));
  }
  const Tensor table(made.data(), dtype, dims, stream_.device());
  tables.keep(words, std::move(made));
  return table;
}

void set_threads(int threads) {
  require(threads >= 0 && threads <= 1024, "set_threads: expected 0 to 1024, got {}", threads);
  const std::lock_guard lock(g_threads->mutex);
  g_threads->wanted = threads;
  g_threads->pool.reset();
}

int threads() { return the_pool()->threads(); }

}  // namespace tachy::python
