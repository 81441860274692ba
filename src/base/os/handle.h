// The system's number for something that is open: a descriptor on POSIX, a HANDLE on Windows. On both, -1
// means none.
#pragma once

#include <cstdint>

namespace tachy::os {

using Handle = std::intptr_t;
inline constexpr Handle kNoHandle = -1;

}  // namespace tachy::os
