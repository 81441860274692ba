// How the system numbers what is open: a descriptor of POSIX, a HANDLE of Windows. -1 is none with both.
#pragma once

#include <cstdint>

namespace tachy::os {

using Handle = std::intptr_t;
inline constexpr Handle kNoHandle = -1;

}  // namespace tachy::os
