// Blocks of memory on given boundaries, and how much memory there is: for this process, its container and the machine. What the
// system does not say is left out, and sets no limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tachy::os {

// Any number of bytes, on a multiple of `alignment` (a power of two); nullptr where there is no memory. free_aligned gives it back.
void* allocate_aligned(size_t bytes, size_t alignment);
void free_aligned(void* block);
// Asks for pages of 2 MB. A hint: where the system has none, small pages do.
void prefer_huge_pages(void* block, size_t bytes);

// A limit on this process's addresses (ulimit -v), and what it has taken of them.
struct AddressSpace {
  uint64_t limit = 0, used = 0;
};
std::optional<AddressSpace> address_space();

// A limit on what the processes of a container take together.
struct ContainerMemory {
  uint64_t limit = 0;
  std::optional<uint64_t> used;
  uint64_t dropped_if_needed = 0;  // of `used`: pages of files
};
std::vector<ContainerMemory> container_memory();

struct MachineMemory {
  uint64_t total = 0, available = 0, free_swap = 0;  // bytes
};
MachineMemory machine_memory();

}  // namespace tachy::os
