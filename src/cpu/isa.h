// The instruction sets that the kernels of this process may use: everything that the CPU has, or the part
// that TACHY_ISA (or the op runner's --isa) allows. The dispatch of Highway and of oneDNN is limited before
// main; our own kernels (AMX, AVX-512 BF16) call isa().
#pragma once

#include <cstdint>
#include <string>

#include "base/isa.h"

namespace tachy::cpu {

// Throws an error if TACHY_ISA has no valid value, or if this CPU lacks what the kernels are compiled for.
// Every op calls it before it runs.
Isa isa();

// Lowers the limit. Call it before the first op of the process.
void limit_isa(Isa limit);

// Returns the instruction set that Highway's code takes, as one of Highway's targets; 0: there is none. Nothing else may ask
// hwy::SupportedTargets: version 1.0 of it chooses the CPU's best again, whatever the limit is.
int64_t highway_target();

// The one instruction set that the kernels are compiled for, if the build was told to serve only this kind of
// CPU (TACHY_CPU_TARGETS=native); "" if they are compiled for all.
std::string compiled_for();

// Returns "AVX-512" for Highway's AVX3 and its relatives, and other targets' names as they are.
std::string common_name(const std::string& target);

}  // namespace tachy::cpu
