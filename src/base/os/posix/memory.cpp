// Facts are read from the kernel's text files; a missing file is not an error.
#include "base/os/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace tachy::os {
namespace {

std::optional<uint64_t> number_in(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// Returns the number after a name: "MemAvailable:  123 kB", "inactive_file 456".
uint64_t field_of(const char* path, std::string_view name) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    uint64_t value = 0;
    if (word == name && in >> value) return value;
    in.clear();
  }
  return 0;
}

}  // namespace

void* allocate_aligned(size_t bytes, size_t alignment) {
  void* block = nullptr;
  return ::posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}

void free_aligned(void* block) { std::free(block); }

void prefer_huge_pages([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  ::madvise(block, bytes, MADV_HUGEPAGE);
#endif
}

std::optional<AddressSpace> address_space() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const uint64_t pages = number_in("/proc/self/statm").value_or(0);
  return AddressSpace{limit.rlim_cur, pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))};
}

std::vector<ContainerMemory> container_memory() {
  struct Files {
    const char *limit, *used, *statistics, *cached;
  };
  static constexpr Files kVersions[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
       "inactive_file"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}};
  std::vector<ContainerMemory> limits;
  for (const Files& files : kVersions) {
    const auto limit = number_in(files.limit);
    if (!limit || *limit > uint64_t{1} << 60) continue;  // cgroup v1 writes 2^63 for "none"
    limits.push_back({*limit, number_in(files.used), field_of(files.statistics, files.cached)});
  }
  return limits;
}

MachineMemory machine_memory() {
  const auto bytes = [](const char* name) { return field_of("/proc/meminfo", name) * 1024; };
  return {bytes("MemTotal:"), bytes("MemAvailable:"), bytes("SwapFree:")};
}

}  // namespace tachy::os
