#include "base/memory_room.h"

#include <fmt/format.h>

#include <utility>

#include "base/env.h"
#include "base/os/memory.h"

namespace tachy {
namespace {

uint64_t left(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

void tighten(MemoryRoom& room, uint64_t bytes, std::string limit) {
  if (bytes < room.bytes) room = {bytes, std::move(limit)};
}

}  // namespace

MemoryRoom memory_room(int threads) {
  MemoryRoom room;
  if (const auto space = os::address_space()) {
    const uint64_t heaps = static_cast<uint64_t>(threads - 1) * (uint64_t{64} << 20);
    tighten(room, left(space->limit, space->used + heaps),
            fmt::format("the address-space limit of {} (ulimit -v)", human_bytes(space->limit)));
  }
  for (const os::ContainerMemory& container : os::container_memory()) {
    if (!container.used) continue;
    // File pages can be dropped, so they do not count as used.
    tighten(room, left(container.limit, left(*container.used, container.dropped_if_needed)),
            fmt::format("the container's limit of {}", human_bytes(container.limit)));
  }
  const os::MachineMemory machine = os::machine_memory();
  if (machine.available > 0)
    tighten(room, machine.available + machine.free_swap, "this machine's free memory");
  return room;
}

}  // namespace tachy
