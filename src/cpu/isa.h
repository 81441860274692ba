// The instruction sets that the kernels of this process may use: everything that the CPU has, or the part
// that TACHY_ISA (or the op runner's --isa) allows. Highway's and oneDNN's dispatch is limited before main;
// our own kernels (AMX, AVX-512 BF16) call isa().
#pragma once

#include "base/isa.h"

namespace tachy::cpu {

// Throws an error if TACHY_ISA has no valid value. Every op calls it before it runs.
Isa isa();

// Lowers the limit. Call it before the first op of the process.
void limit_isa(Isa limit);

}  // namespace tachy::cpu
