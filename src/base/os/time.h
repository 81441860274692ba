// Clocks that C++ lacks, or that mean different things on different systems.
#pragma once

namespace tachy::os {

// The processor time that all threads of this process have used.
double processor_seconds();

}  // namespace tachy::os
