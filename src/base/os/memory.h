// Aligned blocks of memory, and how much memory this process, its container and the machine have. A value
// that the system does not report is left out, and sets no limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tachy::os {

// Allocates any number of bytes at a multiple of `alignment`, a power of two. Returns nullptr if memory is
// short. free_aligned releases the block.
void* allocate_aligned(size_t bytes, size_t alignment);
void free_aligned(void* block);
// Asks for pages of 2 MB. This is only a hint: small pages are used if the system has no large ones.
void prefer_huge_pages(void* block, size_t bytes);

// A limit on this process's addresses (ulimit -v), and how many of them it has used.
struct AddressSpace {
  uint64_t limit = 0, used = 0;
};
std::optional<AddressSpace> address_space();

// A limit on the memory that all processes of a container use together.
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
