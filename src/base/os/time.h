// Clocks that C++ does not have, or that mean something else on some systems.
#pragma once

namespace tachy::os {

// The processor time that all threads of this process have used.
double processor_seconds();

}  // namespace tachy::os
