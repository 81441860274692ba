// A place in a ring of kSteps buffers, and the parity of the current round, which waits on its barriers need.
#pragma once

#include <cstdint>

namespace tachy::device {

template <int kSteps>
struct RingPlace {
  int index = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++index == kSteps) index = 0, parity ^= 1;
  }
};

}  // namespace tachy::device
