// The one symbol that a library of kernels shows to the program that opens it.
#include "cuda/apart/kernel_library.h"

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace tachy::cuda {

extern "C" {
extern const Seam tachy_seam;
extern const char tachy_seam_stamp[];

// Once the library is opened, the slots of kernels for another architecture alone are empty, which no table offers.
[[noreturn]] void tachy_seam_empty() {
  fail(ErrorCode::internal, "a kernel was called that this library does not have");
}

static_assert(CUDART_VERSION / 1000 == 13);
static Joint joint;
__attribute__((visibility("default"))) extern const KernelLibrary tachyscope_kernels;
const KernelLibrary tachyscope_kernels = {
    .bytes = sizeof(KernelLibrary),
    .stamp = tachy_seam_stamp,
    .cuda = TACHY_CUDA_VERSION,
    .architectures = TACHY_CUDA_ARCHITECTURES,
    .seam = &tachy_seam,
    .joint = &joint,
    .gpu_count = gpu_count,
    .open_gpu = open_gpu,
};
}

}  // namespace tachy::cuda
