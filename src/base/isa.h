// TACHY_ISA=sse4|avx2|avx512|native limits the CPU's instruction sets that this process uses, to run as on a
// CPU that has no more (cpu/isa.h tells Highway, oneDNN and our own kernels). avx512 excludes AMX. On CPUs
// other than x86, only native exists.
#pragma once

#include <string_view>

namespace tachy {

enum class Isa { sse4, avx2, avx512, native };  // ascending

const char* isa_name(Isa isa);

// Returns the limit with that name. Throws invalid_argument, naming `source`, for an unknown name or one that
// means more than this CPU has.
Isa isa_named(std::string_view name, const char* source);

// The value of TACHY_ISA, read once; native if it is not set or empty. Throws like isa_named.
Isa isa_asked();

}  // namespace tachy
