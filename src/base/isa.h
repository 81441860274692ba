// TACHY_ISA=sse4|avx2|avx512|native: the most that this process may use of the CPU's instruction sets, to run
// as on a CPU that has no more (cpu/isa.h tells Highway, oneDNN and our own kernels). avx512 leaves out AMX.
// On other CPUs than x86 there is native alone.
#pragma once

#include <string_view>

namespace tachy {

enum class Isa { sse4, avx2, avx512, native };  // ascending

const char* isa_name(Isa isa);

// The limit of that name. Throws invalid_argument, naming `source`, for a name that is unknown or means more
// than this CPU has.
Isa isa_named(std::string_view name, const char* source);

// What TACHY_ISA says, read once; native where it is not set or empty. Throws as isa_named does.
Isa isa_asked();

}  // namespace tachy
