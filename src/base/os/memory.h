// Blocks of memory on given boundaries, and how much memory there is: for this process, its container and the
// machine. Values that the system does not report are left out, and set no limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tachy::os {

// Allocates any number of bytes, at a multiple of `alignment` (a power of two); nullptr if there is no
// memory. free_aligned releases it.
void* allocate_aligned(size_t bytes, size_t alignment);
void free_aligned(void* block);
// Asks for pages of 2 MB. This is a hint: if the system has none, small pages are used.
void prefer_huge_pages(void* block, size_t bytes);

// A limit on this process's addresses (ulimit -v), and how many of them it has used.
struct AddressSpace {
  uint64_t limit = 0, used = 0;
};
std::optional<AddressSpace> address_space();

// A limit on the memory of all processes of a container together.
struct ContainerMemory {
  uint64_t limit = 0;
  std::optional<uint64_t> used;
  uint64_t dropped_if_needed = 0;  // the part of `used` that is pages of files
};
std::vector<ContainerMemory> container_memory();

struct MachineMemory {
  uint64_t total = 0, available = 0, free_swap = 0;  // bytes
};
MachineMemory machine_memory();

}  // namespace tachy::os
