// Clocks that C++ has not got, or that mean something else on some systems.
#pragma once

namespace tachy::os {

// The processors' time that all threads of this process have taken.
double processor_seconds();

}  // namespace tachy::os
