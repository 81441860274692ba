// How much memory this process may still take: its address-space limit (ulimit -v), the container's limit
// (cgroup v1 and v2), and what the machine has left. A run that needs more is refused before it starts, not
// killed hours later.
#pragma once

#include <cstdint>
#include <string>

namespace tachy {

struct MemoryRoom {
  uint64_t bytes = UINT64_MAX;  // UINT64_MAX: nothing known
  std::string limit;            // what sets it, for messages: "the address-space limit of 2.0 GB (ulimit -v)"
};

// What a run takes beside its plan: generated code of oneDNN (which crashes where it cannot allocate it, so
// this much must be there before it is asked for anything), encoders, stacks.
inline constexpr uint64_t kLibraryBytes = uint64_t{128} << 20;

// The tightest of them. The C library reserves 64 MB of addresses for each thread that allocates: with an
// address-space limit that much is taken off for each of `threads`.
MemoryRoom memory_room(int threads = 1);

}  // namespace tachy
