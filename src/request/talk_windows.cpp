#include "request/talk_windows.h"

#include <algorithm>

namespace tachy {

// From L <= F + D (n - 1) = F n - m (n - 1) follows F >= (L + m (n - 1)) / n.
TalkWindows even_windows(TalkWindows windows) {
  const int64_t n = windows.count();
  if (n == 0) return windows;
  const int64_t least = (windows.frames + windows.motion * (n - 1) + n - 1) / n;
  const int64_t fitting = std::max(4 * ((least + 2) / 4) + 1, windows.motion + 4);  // the next 4k + 1
  windows.window = std::min(windows.window, fitting);
  return windows;
}

}  // namespace tachy
