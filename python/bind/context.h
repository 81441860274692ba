// The resources of one call of an op: the threads of this process or a queue of a GPU, and memory that lasts
// as long as the call.
//
// CPU: one pool of threads for all calls; a forked process gets a new one. The calling thread keeps its
// scratch, so that the next call finds its pages.
//
// GPU: the caller's own queue (for example PyTorch's current stream) is adopted, so that neither waits for
// the other. There is one Gpu for each queue, because a Gpu serves only one queue, and two must not share its
// board (group norm). A Gpu is used by one call at a time and never closed, since its queue has another
// owner. Scratch comes from the caller's allocator, in the order of the queue, so that a call can be captured
// in a graph. This is also true of the first call on a queue, because tables are uploaded on a queue of the
// device's own.
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

// The place of a caller's tensors: the CPU, or a GPU with the queue that the caller works on.
struct Place {
  Device device = Device::cpu;
  void* queue = nullptr;  // a cudaStream_t
  // Makes an allocator of the caller's framework on that device, once for each queue; without it the Gpu's
  // own is used.
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

  // Returns contiguous memory that lasts until the call ends.
  Tensor scratch(DType dtype, std::span<const int64_t> dims);
  Tensor scratch(DType dtype, std::initializer_list<int64_t> dims) {
    return scratch(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }

  // Calls body(stream) with an arena of the size that a measure run of it needs. This is for ops that take
  // scratch of their own; others use stream(), whose arena is empty.
  void compute(FunctionRef<void(Stream&)> body);

  // A table that `make` fills on the host. It is kept for later calls on the same device with the same words.
  Tensor table(const std::string& words, DType dtype, std::initializer_list<int64_t> dims,
               FunctionRef<void(const Tensor&)> make);

 private:
  void* piece(size_t bytes);  // on a GPU

  std::shared_ptr<ThreadPool> pool_;
  std::optional<cuda::CaptureLeave> leave_;  // on a GPU: a first call opens the GPU and allocates
  std::unique_lock<std::mutex> turn_;
  Queue* queue_ = nullptr;
  int team_;  // team size of the caller's OpenMP, see context.cpp
  Arena none_{0};
  Stream stream_;
  std::vector<Buffer> held_;  // on a GPU
  size_t free_ = 0;           // on a GPU: unused bytes at the end of the last Buffer
  size_t taken_ = 0;          // on the CPU: blocks of this thread's shelf that this call uses
};

// Sets the number of threads that calls use on the CPU, including the calling one; 0: as many as there are
// processors for this process.
void set_threads(int threads);
int threads();

}  // namespace tachy::python
