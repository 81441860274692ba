#include "cuda/gpu_open.h"

#include <algorithm>

#include "base/env.h"
#include "cuda/gpu_facts.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

cudaError_t kernel_status();  // kernel_probe.cu

namespace {

// TACHY_CUDA_CAPABILITY=75 makes a newer GPU count as an older one, with the same choice of kernels and the
// same shared memory. A Hopper GPU can also count as 120, whose kernels are those of 89: no kernel here has
// instructions that came after Hopper's.
void pretend(GpuInfo& info) {
  const std::string wanted = env_string("TACHY_CUDA_CAPABILITY", "");
  if (wanted.empty()) return;
  const bool known = wanted.size() <= 3 && wanted.find_first_not_of("0123456789") == std::string::npos;
  const int capability = known ? std::stoi(wanted) : 0;
  const bool last = capability == 120 && info.capability() >= 90;
  require((capability >= 75 && capability <= info.capability()) || last,
          "TACHY_CUDA_CAPABILITY: expected a capability from 75 to {}{}, got '{}'", info.capability(),
          info.capability() >= 90 ? ", or 120" : "", wanted);
  info.major = capability / 10, info.minor = capability % 10;
  const bool small = capability == 86 || capability == 89 || capability == 120;
  const size_t kib = capability == 75 ? 64 : small ? 99 : capability < 90 ? 163 : 227;
  info.shared_bytes = std::min(info.shared_bytes, kib * 1024);
}

}  // namespace

std::string kernels_of_build() {
  return fmt::format("CUDA {}, for {}", cuda_version(CUDART_VERSION), TACHY_CUDA_ARCHITECTURES);
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

GpuInfo enter_gpu(int index) {
  cudaDeviceProp p{};
  check_cuda(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
  const cudaError_t opened = cudaSetDevice(index);
  check(opened != cudaErrorMemoryAllocation, ErrorCode::out_of_memory,
        "{} has no memory left for another process (about 0.5 GB before anything is loaded): nvidia-smi "
        "shows who holds it",
        std::string(p.name));
  check_cuda(opened, "cudaSetDevice");
  GpuInfo info{.index = index,
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
        info.name, info.major, info.minor, TACHY_CUDA_ARCHITECTURES, info.major, info.minor);
  check_cuda(status, "cudaFuncGetAttributes");
  pretend(info);
  check_cuda(cudaDriverGetVersion(&info.driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&info.runtime), "cudaRuntimeGetVersion");
  return info;
}

}  // namespace tachy::cuda
