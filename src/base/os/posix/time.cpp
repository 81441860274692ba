#include "base/os/time.h"

#include <ctime>

namespace tachy::os {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace tachy::os
