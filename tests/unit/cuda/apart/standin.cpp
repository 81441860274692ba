// Stands in for a library of kernels: functions of both sides, errors and objects cross the seam.
#include "standin.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "cuda/apart/kernel_library.h"

namespace tachy::cuda::standin {
namespace {

struct FromOne final : Counter {
  int next() override { return ++at; }
  int at = 0;
};

}  // namespace

int twice(int x) { return 2 * x; }
std::string value_of(const char* name) { return env_string(name, "none"); }
void warn_of(const std::string& what) { warn_line(what); }
void throw_unsupported(const std::string& text) { throw Error(ErrorCode::unsupported, text); }
Counter* make_counter() { return new FromOne; }

}  // namespace tachy::cuda::standin

namespace tachy::cuda {

extern "C" {
extern const Seam tachy_seam;
extern const char tachy_seam_stamp[];
[[noreturn]] void tachy_seam_empty() { std::abort(); }

static Joint joint;
__attribute__((visibility("default"))) extern const KernelLibrary tachyscope_kernels;
const KernelLibrary tachyscope_kernels = {
    .bytes = sizeof(KernelLibrary),
    .stamp = tachy_seam_stamp,
    .cuda = "13.0",
    .architectures = "stand-in",
    .seam = &tachy_seam,
    .joint = &joint,
    .gpu_count = [](std::string*) { return 2; },
    .open_gpu = [](int, std::optional<OutsideQueue>) { return std::unique_ptr<Gpu>(); },
};
}

}  // namespace tachy::cuda
