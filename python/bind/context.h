// What one call of an op runs with: the threads of this process or a queue of a GPU, and memory that lasts as long as
// the call.
//
// CPU: one pool of threads for all calls; a forked process gets a new one. Scratch is kept by the thread that calls, so
//      that the next call finds its pages.
// GPU: the caller's own queue (PyTorch's current stream, say) is adopted, so that nobody waits for anybody. There is one
//      Gpu for each queue, for a Gpu serves one queue, and its board (group norm) must not be shared by two. A Gpu is used
//      by one call at a time and never closed, since its queue belongs to somebody else. Scratch comes from the caller's
//      allocator, in the order of the queue, so that a call can be captured in a graph; even the first one on a queue, for
//      tables are uploaded on a queue of the device's own.
#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "cuda/capture_leave.h"
#include "tensor/stream.h"

namespace tachy::python {

// Where a caller's tensors lie: on the CPU, or on a GPU with the queue that the caller works on.
struct Place {
  Device device = Device::cpu;
  void* queue = nullptr;  // a cudaStream_t
  // Makes memory of the caller's framework on that device, once a queue; without it the Gpu's own is taken.
  std::unique_ptr<DeviceMemory> (*memory)(cuda::Gpu& gpu) = nullptr;
};

class Queue;  // of a GPU

class Context {
 public:
  explicit Context(const Place& place);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  bool on_gpu() const { return queue_ != nullptr; }
  Stream& stream() { return stream_; }

  // Contiguous memory until the call ends.
  Tensor scratch(DType dtype, std::span<const int64_t> dims);
  Tensor scratch(DType dtype, std::initializer_list<int64_t> dims) {
    return scratch(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }

  // body(stream) with an arena as large as a measure run of it says: for ops that take scratch of their own. The
  // others run with stream(), whose arena is empty.
  void compute(FunctionRef<void(Stream&)> body);

  // A table that `make` fills on the host, kept for later calls on the same device with the same words.
  Tensor table(const std::string& words, DType dtype, std::initializer_list<int64_t> dims,
               FunctionRef<void(const Tensor&)> make);

 private:
  void* piece(size_t bytes);  // on a GPU

  std::shared_ptr<ThreadPool> pool_;
  std::optional<cuda::CaptureLeave> leave_;  // on a GPU: a first call opens and allocates
  std::unique_lock<std::mutex> turn_;
  Queue* queue_ = nullptr;
  int team_;  // of the caller's OpenMP, see context.cpp
  Arena none_{0};
  Stream stream_;
  std::vector<Buffer> held_;  // on a GPU
  size_t free_ = 0;           // on a GPU: bytes at the end of the last of them that nobody has
  size_t taken_ = 0;          // on the CPU: blocks of this thread's shelf in use by this call
};

// How many threads calls use on the CPU, the calling one included; 0: as many as there are processors for us.
void set_threads(int threads);
int threads();

}  // namespace tachy::python
