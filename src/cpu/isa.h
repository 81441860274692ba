// The instruction sets that the kernels of this process may use: all the CPU has, or what TACHY_ISA (or the
// op runner's --isa) leaves of them. Highway's and oneDNN's dispatch is limited before main; our own kernels
// (AMX, AVX-512 BF16) ask isa().
#pragma once

#include <string>

#include "base/isa.h"

namespace tachy::cpu {

// Throws what was wrong with TACHY_ISA, or that this CPU lacks what the kernels are compiled for. Every op asks
// before it runs.
Isa isa();

// Lowers the limit; before the first op of the process.
void limit_isa(Isa limit);

// The one instruction set that the kernels are compiled for, where the build was told to serve this kind of CPU
// alone (TACHY_CPU_TARGETS=native); "" where they are compiled for all.
std::string compiled_for();

}  // namespace tachy::cpu
