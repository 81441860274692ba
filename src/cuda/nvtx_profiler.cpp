#include "cuda/nvtx_profiler.h"

#include <fmt/format.h>

#include "base/error.h"
#ifdef TACHY_NVTX
#include "cuda/nvtx_range.h"
#endif

namespace tachy::cuda {

#ifdef TACHY_NVTX

namespace {

class NvtxProfiler final : public Profiler {
 public:
  explicit NvtxProfiler(Profiler* also) : also_(also) {}
  uint64_t begin(const char* name, ProfileKind kind, int64_t index) override {
    push_range(name, index);
    return also_ ? also_->begin(name, kind, index) : 0;
  }
  void end(uint64_t token) override {
    if (also_) also_->end(token);
    pop_range();
  }
  bool keeps_graphs() const override { return !forbids_graphs(also_); }

 private:
  Profiler* also_;
};

}  // namespace

std::unique_ptr<Profiler> make_nvtx_profiler(Profiler* also) { return std::make_unique<NvtxProfiler>(also); }

#else

std::unique_ptr<Profiler> make_nvtx_profiler(Profiler*) {
  fail(ErrorCode::unsupported,
       "`nvtx`: this build has no NVTX ranges: its headers (nvtx3/nvToolsExt.h, of the CUDA toolkit) were "
       "not found "
       "when it was configured");
}

#endif

}  // namespace tachy::cuda
