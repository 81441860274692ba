// How much memory this process may still use. This depends on its address-space limit (ulimit -v), the
// container's limit (cgroup v1 and v2), and the memory that the machine has left. A run that needs more is
// refused before it starts, rather than killed hours later.
#pragma once

#include <cstdint>
#include <string>

namespace tachy {

struct MemoryRoom {
  uint64_t bytes = UINT64_MAX;  // UINT64_MAX means unknown
  // Where the limit comes from, for messages, such as "the address-space limit of 2.0 GB (ulimit -v)".
  std::string limit;
};

// Memory that a run takes beyond its plan: stacks, encoders, and the code that oneDNN generates. oneDNN
// crashes if it cannot allocate, so this much must be available before it is first called.
inline constexpr uint64_t kLibraryBytes = uint64_t{128} << 20;

// Returns the tightest of these limits. The C library reserves 64 MB of addresses for each thread that
// allocates, so under an address-space limit this amount is subtracted for each of `threads`.
MemoryRoom memory_room(int threads = 1);

}  // namespace tachy
