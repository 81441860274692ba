// Memory comes from cudaMalloc, never inside a step: Buffers and arenas are made when a stage begins.
#include "cuda/gpu.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/env.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

cudaError_t kernel_status();  // kernel_probe.cu

namespace {

// Uploads from pageable memory (a mapped file) pass through two pinned halves, so that reading the file and
// the copy to the device overlap.
constexpr size_t kStagingBytes = size_t{16} << 20;

// TACHY_CUDA_CAPABILITY=75 lets a newer GPU be taken for an older one: same choice of kernels, same shared
// memory.
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

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(int index) {
    check_cuda(cudaSetDevice(index), "cudaSetDevice");
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
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
          "device: {} has compute capability {}.{}, and this build has kernels for {} only: build with "
          "-DTACHY_CUDA_ARCHITECTURES={}{}, or use --device cpu",
          info_.name, info_.major, info_.minor, TACHY_CUDA_ARCHITECTURES, info_.major, info_.minor);
    check_cuda(status, "cudaFuncGetAttributes");
    pretend(info_);
    check_cuda(cudaDriverGetVersion(&info_.driver), "cudaDriverGetVersion");
    check_cuda(cudaRuntimeGetVersion(&info_.runtime), "cudaRuntimeGetVersion");
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    stream_ = stream;
  }
  ~CudaGpu() override {
    cublaslt.reset(), cudnn.reset();
    for (int i = 0; i < 2; ++i) {
      if (staging_[i]) cudaFreeHost(staging_[i]);
      if (done_[i]) cudaEventDestroy(done_[i]);
    }
    cudaStreamDestroy(queue());
  }

  size_t free_bytes() const override {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  void* allocate(size_t bytes) override {
    void* p = nullptr;
    const cudaError_t status = cudaMalloc(&p, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      fail(ErrorCode::out_of_memory, "out of GPU memory: could not allocate {} ({} of {} free; {} held here)",
           human_bytes(bytes), human_bytes(free_bytes()), human_bytes(info_.memory_bytes),
           human_bytes(live_));
    }
    check_cuda(status, "cudaMalloc");
    live_ += bytes;
    if (live_ > peak_) peak_ = live_;
    return p;
  }
  void release(void* p, size_t bytes) noexcept override {
    cudaFree(p);  // waits for the device, so nothing queued still uses it
    live_ -= bytes;
  }

  void upload(void* to, const void* from, size_t bytes) override {
    make_staging();
    for (size_t begin = 0; begin < bytes; begin += kStagingBytes) {
      const size_t count = std::min(kStagingBytes, bytes - begin);
      const int half = next_half_;
      next_half_ ^= 1;
      check_cuda(cudaEventSynchronize(done_[half]), "upload");
      std::memcpy(staging_[half], static_cast<const char*>(from) + begin, count);
      check_cuda(cudaMemcpyAsync(static_cast<char*>(to) + begin, staging_[half], count,
                                 cudaMemcpyHostToDevice, queue()),
                 "upload");
      check_cuda(cudaEventRecord(done_[half], queue()), "upload");
    }
  }
  void download(void* to, const void* from, size_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue()), "download");
    synchronize();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue()), "copy");
  }
  void fill(void* to, int byte, size_t bytes) override {
    check_cuda(cudaMemsetAsync(to, byte, bytes, queue()), "fill");
  }
  void synchronize() override { check_cuda(cudaStreamSynchronize(queue()), "an earlier kernel"); }

  size_t live_bytes() const override { return live_; }
  size_t peak_bytes() const override { return peak_; }
  void reset_peak() override { peak_ = live_; }

 private:
  cudaStream_t queue() const { return static_cast<cudaStream_t>(stream_); }
  void make_staging() {
    if (staging_[0]) return;
    for (int i = 0; i < 2; ++i) {
      check_cuda(cudaEventCreateWithFlags(&done_[i], cudaEventDisableTiming), "cudaEventCreate");
      check_cuda(cudaMallocHost(&staging_[i], kStagingBytes), "pinned memory for uploads");
    }
  }

  void* staging_[2] = {};
  cudaEvent_t done_[2] = {};
  int next_half_ = 0;
  size_t live_ = 0, peak_ = 0;
};

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failed call must not taint the next check
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device,
       "cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
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

std::unique_ptr<Gpu> open_gpu(int index) {
  std::string why;
  const int count = gpu_count(&why);
  check(count > 0, ErrorCode::unsupported, "device: {}; use --device cpu", why);
  check(index >= 0 && index < count, ErrorCode::unsupported, "device: expected a GPU from 0 to {}, got {}",
        count - 1, index);
  return std::make_unique<CudaGpu>(index);
}

}  // namespace tachy::cuda
