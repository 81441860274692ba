// Launchers of a build without CUDA: never reached, since no stream has a GPU, but the tables name them.
#include "base/error.h"

namespace tachy::ops {}  // namespace tachy::ops
