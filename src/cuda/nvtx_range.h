// A range of NVTX, whose name is made of the name and index of a profile's range.
#pragma once

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

namespace tachy::cuda {

inline void push_range(const char* name, int64_t index) {
  if (index < 0)
    nvtxRangePushA(name);
  else
    nvtxRangePushA(fmt::format("{} {}", name, index).c_str());
}
inline void pop_range() { nvtxRangePop(); }

}  // namespace tachy::cuda
