// Memory comes from cudaMalloc, but never inside a step: Buffers and arenas are made when a stage begins.
#include "cuda/gpu.h"

#include <cstring>

#include "base/env.h"
#include "base/stress.h"
#include "cuda/checksum.h"
#include "cuda/current_device.h"
#include "cuda/gpu_open.h"
#include "cuda/pacer.h"
#include "cuda/runtime.h"
#include "cuda/staging.h"

namespace tachy::cuda {
namespace {

class CudaGpu final : public Gpu, public StreamingMemory {
 public:
  CudaGpu(int index, std::optional<OutsideQueue> queue) {
    info_ = enter_gpu(index);
    if (queue) {
      adopt(*queue);
    } else {
      check_cuda(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "cudaStreamCreate");
      stream_ = own_;
    }
    side_.emplace(this->queue());
    staging_.emplace(*side_, this->queue(), index);
    for (cudaEvent_t& mark : marks_) mark = make_event();
    for (cudaEvent_t& mark : fetched_) mark = make_event();
  }
  ~CudaGpu() override {
    const CurrentDevice here(this);
    cublaslt.reset(), cudnn.reset(), board.reset(), tally.reset();
    pacer_.reset();
    cudaStreamSynchronize(side_->get());
    if (sum_) cudaFree(sum_);
    staging_.reset();
    for (cudaEvent_t mark : marks_) cudaEventDestroy(mark);
    for (cudaEvent_t mark : fetched_) cudaEventDestroy(mark);
    side_.reset();
    if (own_) cudaStreamDestroy(own_);
  }

  size_t free_bytes() const override {
    const CurrentDevice here(this);
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  void* allocate(size_t bytes) override {
    const CurrentDevice here(this);
    void* p = nullptr;
    const cudaError_t status = cudaMalloc(&p, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      fail(ErrorCode::out_of_memory,
           "out of GPU memory on {}: could not allocate {} ({} of {} free); held here:\n{}",
           device_name(device()), human_bytes(bytes), human_bytes(free_bytes()),
           human_bytes(info_.memory_bytes), ledger.table());
    }
    check_cuda(status, "cudaMalloc");
    ledger.add(p, bytes);
    if (stress_seed() != 0) check_cuda(cudaMemsetAsync(p, stress_byte(), bytes, queue()), "TACHY_STRESS");
    return p;
  }
  void release(void* p, size_t) noexcept override {
    const CurrentDevice here(this);
    cudaFree(p);  // waits for the device, so nothing queued there still uses it
    ledger.remove(p);
  }

  void upload(void* to, const void* from, size_t bytes) override {
    upload_pieces(to, bytes, [&](void* piece, size_t begin, size_t count) {
      std::memcpy(piece, static_cast<const char*>(from) + begin, count);
    });
  }
  void upload_pieces(void* to, size_t bytes, const MakePiece& make) override {
    const CurrentDevice here(this);
    staging_->upload_pieces(to, bytes, make);
  }
  void upload_all(std::span<const Upload> uploads, ThreadPool& pool) override {
    const CurrentDevice here(this);
    staging_->upload_all(uploads, pool);
  }
  void download(void* to, const void* from, size_t bytes) override {
    const CurrentDevice here(this);
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue()), "download");
    synchronize();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    const CurrentDevice here(this);
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue()), "copy");
  }
  void fill(void* to, int byte, size_t bytes) override {
    const CurrentDevice here(this);
    check_cuda(cudaMemsetAsync(to, byte, bytes, queue()), "fill");
  }
  void synchronize() override {
    const CurrentDevice here(this);
    check_cuda(cudaStreamSynchronize(queue()), "an earlier kernel");
  }

  size_t live_bytes() const override { return ledger.live(); }
  size_t peak_bytes() const override { return ledger.peak(); }
  void reset_peak() override { ledger.reset_peak(); }

  void pin(void* host, size_t bytes) override {
    const CurrentDevice here(this);
    const cudaError_t status = cudaHostRegister(host, bytes, cudaHostRegisterDefault);
    if (status == cudaSuccess) return;
    cudaGetLastError();
    fail(ErrorCode::out_of_memory,
         "could not page-lock {} of host memory for blocks that do not fit the GPU: {}; a larger `max_vram` "
         "keeps more of them there",
         human_bytes(bytes), cudaGetErrorString(status));
  }
  void unpin(void* host) noexcept override { cudaHostUnregister(host); }
  void copy_beside(void* to, const void* pinned, size_t bytes, int mark) override {
    const CurrentDevice here(this);
    side_->fork();
    stress_queue(side_->get());
    check_cuda(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, side_->get()), "copy of a block");
    check_cuda(cudaEventRecord(marks_[mark], side_->get()), "copy of a block");
  }
  void wait_beside(int mark) override {
    const CurrentDevice here(this);
    check_cuda(cudaStreamWaitEvent(queue(), marks_[mark], 0), "copy of a block");
    stress_queue(queue());
  }
  void fetch(void* pinned, const void* from, size_t bytes, int mark) override {
    const CurrentDevice here(this);
    check_cuda(cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDeviceToHost, queue()), "fetch");
    check_cuda(cudaEventRecord(fetched_[mark], queue()), "fetch");
  }
  bool fetched(int mark) override {
    const CurrentDevice here(this);
    const cudaError_t status = cudaEventQuery(fetched_[mark]);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // clears the status, which is not an error
      return false;
    }
    check_cuda(status, "an earlier kernel");
    return true;
  }
  void pace() override {
    const CurrentDevice here(this);
    if (!pacer_) pacer_ = std::make_unique<Pacer>(queue());
    pacer_->mark();
  }
  uint64_t checksum(const void* data, size_t bytes) override {
    const CurrentDevice here(this);
    uint64_t sum = 0;
    if (!sum_) check_cuda(cudaMalloc(&sum_, sizeof sum), "cudaMalloc");
    queue_checksum(data, bytes, sum_, queue());
    download(&sum, sum_, sizeof sum);
    return sum;
  }

 private:
  void adopt(const OutsideQueue& queue) {
    auto* const stream = static_cast<cudaStream_t>(queue.stream);
#if CUDART_VERSION >= 12080
    int of = info_.index;
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    // While a caller is recording work on the queue, nothing more is checked.
    if (cudaStreamIsCapturing(stream, &capturing) != cudaSuccess) cudaGetLastError();
    if (capturing == cudaStreamCaptureStatusNone)
      check_cuda(cudaStreamGetDevice(stream, &of), "the queue that was given");
    require(of == info_.index, "expected a queue of cuda:{}, got one of cuda:{}", info_.index, of);
#endif
    stream_ = stream;
    captures_ = stream != nullptr && stream != cudaStreamLegacy;
  }
  cudaStream_t queue() const { return static_cast<cudaStream_t>(stream_); }

  cudaStream_t own_ = nullptr;  // null if somebody else's queue is used
  std::optional<SideQueue> side_;
  std::optional<Staging> staging_;
  cudaEvent_t marks_[kMarks] = {}, fetched_[kFetches] = {};
  std::unique_ptr<Pacer> pacer_;
  void* sum_ = nullptr;  // memory for checksum()
};

}  // namespace

std::unique_ptr<Gpu> open_gpu(int index, std::optional<OutsideQueue> queue) {
  std::string why;
  const int count = gpu_count(&why);
  check(count > 0, ErrorCode::unsupported, "{}", why);
  check(index >= 0 && index < count, ErrorCode::unsupported, "expected a GPU from 0 to {}, got {}", count - 1,
        index);
  struct Restore {  // after the constructor's own cudaSetDevice
    int before = 0;
    Restore() { cudaGetDevice(&before); }
    ~Restore() { cudaSetDevice(before); }
  } const restore;
  return std::make_unique<CudaGpu>(index, queue);
}

}  // namespace tachy::cuda
