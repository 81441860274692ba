// Memory comes from cudaMalloc, never inside a step: Buffers and arenas are made when a stage begins.
#include "cuda/gpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/env.h"
#include "base/stress.h"
#include "cuda/checksum.h"
#include "cuda/current_device.h"
#include "cuda/pacer.h"
#include "cuda/runtime.h"
#include "tensor/streaming_memory.h"

namespace tachy::cuda {

cudaError_t kernel_status();  // kernel_probe.cu

namespace {

// Uploads pass through two page-locked halves on a queue of their own, so that reading the file (and widening
// or narrowing its values) and the copy to the device overlap. Small ones share a half. Where many are made
// at once the same memory is a ring of small slots: each thread fills one while others are on their way.
constexpr size_t kStagingBytes = size_t{32} << 20;
constexpr size_t kSlotBytes = size_t{2} << 20;
constexpr size_t kSlotsOfHalf = kStagingBytes / kSlotBytes;

// TACHY_CUDA_CAPABILITY=75 lets a newer GPU be taken for an
// older one: same choice of kernels, same shared memory.
void pretend(GpuInfo& info) {
  const std::string wanted = env_string("TACHY_CUDA_CAPABILITY", "");
  if (wanted.empty()) return;
  const bool known = wanted.size() == 2 && wanted.find_first_not_of("0123456789") == std::string::npos;
  const int capability = known ? std::stoi(wanted) : 0;
  require(capability >= 75 && capability <= info.capability(),
          "TACHY_CUDA_CAPABILITY: expected a capability from 75 to {}, got '{}'", info.capability(), wanted);
  info.major = capability / 10, info.minor = capability % 10;
  const size_t kib = capability == 75                       ? 64
                     : capability == 86 || capability == 89 ? 99
                     : capability < 90                      ? 163
                                                            : 227;
  info.shared_bytes = std::min(info.shared_bytes, kib * 1024);
}

// TACHY_STRESS: what was queued before reaches the device some time later. May be captured.
void stress_queue(cudaStream_t queue) {
  if (stress_seed() == 0) return;
  check_cuda(cudaLaunchHostFunc(
                 queue, [](void*) { stress_pause(); }, nullptr),
             "TACHY_STRESS");
}

class CudaGpu final : public Gpu, public StreamingMemory {
 public:
  CudaGpu(int index, std::optional<OutsideQueue> queue) {
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
    const cudaError_t opened = cudaSetDevice(index);
    check(opened != cudaErrorMemoryAllocation, ErrorCode::out_of_memory,
          "{} has no memory left for another process (about 0.5 GB before anything is loaded): nvidia-smi "
          "shows who holds it",
          std::string(p.name));
    check_cuda(opened, "cudaSetDevice");
    info_ = {.index = index,
             .name = p.name,
             .major = p.major,
             .minor = p.minor,
             .multiprocessors = p.multiProcessorCount,
             .memory_bytes = p.totalGlobalMem,
             .l2_bytes = static_cast<size_t>(p.l2CacheSize),
             .shared_bytes = p.sharedMemPerBlockOptin};
    const cudaError_t status = kernel_status();
    check(status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction &&
              status != cudaErrorUnsupportedPtxVersion,
          ErrorCode::unsupported,
          "{} has compute capability {}.{}, and this build has kernels for {} only: build with "
          "-DTACHY_CUDA_ARCHITECTURES={}{}",
          info_.name, info_.major, info_.minor, TACHY_CUDA_ARCHITECTURES, info_.major, info_.minor);
    check_cuda(status, "cudaFuncGetAttributes");
    pretend(info_);
    check_cuda(cudaDriverGetVersion(&info_.driver), "cudaDriverGetVersion");
    check_cuda(cudaRuntimeGetVersion(&info_.runtime), "cudaRuntimeGetVersion");
    if (queue) {
      adopt(*queue);
    } else {
      check_cuda(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "cudaStreamCreate");
      stream_ = own_;
    }
    check_cuda(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t* event : {&fork_, &join_, &marks_[0], &marks_[1], &done_[0], &done_[1]})
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CudaGpu() override {
    const CurrentDevice here(this);
    cublaslt.reset(), cudnn.reset(), board.reset();
    pacer_.reset();
    cudaStreamSynchronize(side_);
    if (sum_) cudaFree(sum_);
    for (void* half : staging_)
      if (half) cudaFreeHost(half);
    for (cudaEvent_t event : {fork_, join_, marks_[0], marks_[1], done_[0], done_[1]})
      cudaEventDestroy(event);
    for (Slot& slot : slots_)
      if (slot.done) cudaEventDestroy(slot.done);
    cudaStreamDestroy(side_);
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
    cudaFree(p);  // waits for the device, so nothing queued still uses it
    ledger.remove(p);
  }

  void upload(void* to, const void* from, size_t bytes) override {
    upload_pieces(to, bytes, [&](void* piece, size_t begin, size_t count) {
      std::memcpy(piece, static_cast<const char*>(from) + begin, count);
    });
  }
  void upload_pieces(void* to, size_t bytes, const MakePiece& make) override {
    const CurrentDevice here(this);
    make_staging();
    fork();
    for (size_t begin = 0; begin < bytes;) {
      if (kStagingBytes - used_ < std::min(bytes - begin, kStagingBytes / 4)) {
        check_cuda(cudaEventRecord(done_[half_], side_), "upload");
        half_ ^= 1, used_ = 0;
        check_cuda(cudaEventSynchronize(done_[half_]), "upload");
      }
      const size_t count = std::min(bytes - begin, kStagingBytes - used_);
      char* piece = static_cast<char*>(staging_[half_]) + used_;
      make(piece, begin, count);
      stress_queue(side_);
      check_cuda(cudaMemcpyAsync(static_cast<char*>(to) + begin, piece, count, cudaMemcpyHostToDevice, side_),
                 "upload");
      begin += count, used_ = std::min(align_up(used_ + count), kStagingBytes);
    }
    check_cuda(cudaEventRecord(join_, side_), "upload");
    check_cuda(cudaStreamWaitEvent(queue(), join_, 0), "upload");
  }
  void upload_all(std::span<const Upload> uploads, ThreadPool& pool) override {
    const CurrentDevice here(this);
    struct Piece {
      const Upload* of;
      size_t begin, count;
    };
    std::vector<Piece> pieces;
    for (const Upload& u : uploads)
      for (size_t begin = 0; begin < u.bytes; begin += kSlotBytes)
        pieces.push_back({&u, begin, std::min(kSlotBytes, u.bytes - begin)});
    make_staging();
    leave_halves();
    for (const cudaEvent_t done : done_) check_cuda(cudaEventSynchronize(done), "upload");
    fork();
    // Whatever ends this, the halves are free again when the copies queued so far are done.
    struct Leave {
      CudaGpu& gpu;
      ~Leave() {
        cudaEventRecord(gpu.done_[0], gpu.side_), cudaEventRecord(gpu.done_[1], gpu.side_);
        gpu.used_ = kStagingBytes;
      }
    };
    {
      const Leave leave{*this};
      pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t i, int) {
        const Piece& p = pieces[static_cast<size_t>(i)];
        send_through_slot(static_cast<size_t>(i) % slots_.size(), *p.of, p.begin, p.count);
      });
    }
    check_cuda(cudaEventRecord(join_, side_), "upload");
    check_cuda(cudaStreamWaitEvent(queue(), join_, 0), "upload");
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
         "could not page-lock {} of host memory for blocks that do not fit the GPU: {}; a larger --max-vram "
         "keeps more of them there",
         human_bytes(bytes), cudaGetErrorString(status));
  }
  void unpin(void* host) noexcept override { cudaHostUnregister(host); }
  void copy_beside(void* to, const void* pinned, size_t bytes, int mark) override {
    const CurrentDevice here(this);
    fork();
    stress_queue(side_);
    check_cuda(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, side_), "copy of a block");
    check_cuda(cudaEventRecord(marks_[mark], side_), "copy of a block");
  }
  void wait_beside(int mark) override {
    const CurrentDevice here(this);
    check_cuda(cudaStreamWaitEvent(queue(), marks_[mark], 0), "copy of a block");
    stress_queue(queue());
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
  // A piece of the page-locked memory; whoever holds the mutex fills it.
  struct Slot {
    std::mutex mutex;
    cudaEvent_t done = nullptr;  // its last copy
  };

  void adopt(const OutsideQueue& queue) {
    auto* const stream = static_cast<cudaStream_t>(queue.stream);
#if CUDART_VERSION >= 12080
    int of = info_.index;
    check_cuda(cudaStreamGetDevice(stream, &of), "the queue that was given");
    require(of == info_.index, "expected a queue of cuda:{}, got one of cuda:{}", info_.index, of);
#endif
    stream_ = stream;
    captures_ = stream != nullptr && stream != cudaStreamLegacy;
  }
  cudaStream_t queue() const { return static_cast<cudaStream_t>(stream_); }
  void make_staging() {
    for (void*& half : staging_)
      if (!half) check_cuda(cudaMallocHost(&half, kStagingBytes), "page-locked memory for uploads");
  }
  // What lies in both halves is marked as on its way.
  void leave_halves() { check_cuda(cudaEventRecord(done_[half_], side_), "upload"); }
  void send_through_slot(size_t s, const Upload& upload, size_t begin, size_t count) {
    Slot& slot = slots_[s];
    const std::lock_guard lock(slot.mutex);
    const CurrentDevice here(this);  // in a thread of the pool
    if (!slot.done)
      check_cuda(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaEventSynchronize(slot.done), "upload");  // one never recorded does not wait
    char* piece = static_cast<char*>(staging_[s / kSlotsOfHalf]) + s % kSlotsOfHalf * kSlotBytes;
    upload.make(piece, begin, count);
    stress_queue(side_);
    check_cuda(
        cudaMemcpyAsync(static_cast<char*>(upload.to) + begin, piece, count, cudaMemcpyHostToDevice, side_),
        "upload");
    check_cuda(cudaEventRecord(slot.done, side_), "upload");
  }
  // What the side queue gets from here on waits for what the compute stream holds now.
  void fork() {
    check_cuda(cudaEventRecord(fork_, queue()), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(side_, fork_, 0), "cudaStreamWaitEvent");
  }

  cudaStream_t own_ = nullptr;  // null: somebody else's queue is used
  cudaStream_t side_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr, marks_[kMarks] = {}, done_[2] = {};
  std::unique_ptr<Pacer> pacer_;
  void* sum_ = nullptr;  // of checksum()
  void* staging_[2] = {};
  int half_ = 0;
  size_t used_ = 0;  // of the half
  std::array<Slot, 2 * kSlotsOfHalf> slots_;
};

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failed call must not taint the next check
  int index = 0;
  cudaGetDevice(&index);
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device,
       "cuda:{}: {}: {} ({})", index, what, cudaGetErrorString(status), cudaGetErrorName(status));
}

int CurrentDevice::enter(int index) noexcept {
  int now = 0;
  if (cudaGetDevice(&now) != cudaSuccess || now == index) return kSame;
  if (cudaSetDevice(index) != cudaSuccess) cudaGetLastError();
  return now;
}
void CurrentDevice::leave(int before) noexcept {
  if (cudaSetDevice(before) != cudaSuccess) cudaGetLastError();
}

int gpu_count(std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver), cudaRuntimeGetVersion(&runtime);
  if (why) {
    if (driver == 0)
      *why = "no NVIDIA driver is loaded";
    else if (status == cudaErrorInsufficientDriver)
      *why = fmt::format("the driver is for CUDA {}.{}, this build needs {}.{}: update the driver",
                         driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else
      *why = fmt::format("no usable GPU: {}", cudaGetErrorString(status));
  }
  return 0;
}

std::unique_ptr<Gpu> open_gpu(int index, std::optional<OutsideQueue> queue) {
  std::string why;
  const int count = gpu_count(&why);
  check(count > 0, ErrorCode::unsupported, "{}", why);
  check(index >= 0 && index < count, ErrorCode::unsupported, "expected a GPU from 0 to {}, got {}", count - 1,
        index);
  struct Restore {  // the constructor's own cudaSetDevice
    int before = 0;
    Restore() { cudaGetDevice(&before); }
    ~Restore() { cudaSetDevice(before); }
  } const restore;
  return std::make_unique<CudaGpu>(index, queue);
}

}  // namespace tachy::cuda
