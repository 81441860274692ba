// TACHY_ISA=sse4|avx2|avx512|native limits the CPU instructions that this process uses, so that it runs as on
// an older CPU. cpu/isa.h passes the limit on to Highway, oneDNN and our own kernels. avx512 excludes AMX.
// CPUs other than x86 have only native.
#pragma once

#include <string_view>

namespace tachy {

enum class Isa { sse4, avx2, avx512, native };  // in ascending order

const char* isa_name(Isa isa);

// Returns the limit with that name. Throws invalid_argument, which names `source`, if the name is unknown or
// asks for more than this CPU has.
Isa isa_named(std::string_view name, const char* source);

// The value of TACHY_ISA, which is read once; native if it is empty or not set. Throws like isa_named.
Isa isa_asked();

// Returns the newest instructions that this process uses: those of the CPU, within TACHY_ISA; on CPUs other
// than x86 native.
Isa best_isa();

}  // namespace tachy
