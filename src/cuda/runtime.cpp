// CUDA's errors as ours, and the GPU to which a thread's calls go.
#include "cuda/runtime.h"

#include "cuda/capture_leave.h"
#include "cuda/current_device.h"

namespace tachy::cuda {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failed call must not spoil the next check
  int index = 0;
  cudaGetDevice(&index);
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device,
       "cuda:{}: {}: {} ({})", index, what, cudaGetErrorString(status), cudaGetErrorName(status));
}

int CaptureLeave::exchange(int mode) noexcept {
  auto with = static_cast<cudaStreamCaptureMode>(mode);
  return cudaThreadExchangeStreamCaptureMode(&with) == cudaSuccess ? static_cast<int>(with) : kRelaxed;
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

}  // namespace tachy::cuda
