// The system's number for something open: a descriptor of POSIX or a HANDLE of Windows. -1 means none for
// both.
#pragma once

#include <cstdint>

namespace tachy::os {

using Handle = std::intptr_t;
inline constexpr Handle kNoHandle = -1;

}  // namespace tachy::os
