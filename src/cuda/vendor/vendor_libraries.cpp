#include <fmt/format.h>

#include "cuda/gpu_facts.h"
#include "cuda/vendor/cublaslt.h"
#include "cuda/vendor/cudnn.h"

namespace tachy::cuda {
namespace {

// Both libraries number their versions major·10000 + minor·100 + patch.
template <class Library>
std::string version_of(Gpu& gpu) {
  std::string why;
  const Library* library = Library::of(gpu, why);
  if (!library) return "cannot be used: " + why;
  const size_t v = library->version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> vendor_libraries(Gpu& gpu) {
  return {{"cuBLASLt", version_of<CublasLt>(gpu)}, {"cuDNN", version_of<Cudnn>(gpu)}};
}

}  // namespace tachy::cuda
