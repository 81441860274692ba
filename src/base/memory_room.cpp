// Everything is read from the kernel's text files; one that is missing or says nothing sets no limit.
#include "base/memory_room.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string_view>

#include "base/env.h"

namespace tachy {
namespace {

std::optional<uint64_t> number_in(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// The number behind a name: "MemAvailable:  123 kB", "inactive_file 456".
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

uint64_t left(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

void tighten(MemoryRoom& room, uint64_t bytes, std::string limit) {
  if (bytes < room.bytes) room = {bytes, std::move(limit)};
}

void tighten_cgroup(MemoryRoom& room, const char* limit_file, const char* used_file, const char* stat_file,
                    std::string_view cache_field) {
  const auto limit = number_in(limit_file), used = number_in(used_file);
  if (!limit || !used || *limit > uint64_t{1} << 60) return;  // v1 says 2^63 for "none"
  // File pages can be dropped: they do not count as taken.
  tighten(room, left(*limit, left(*used, field_of(stat_file, cache_field))),
          fmt::format("the container's limit of {}", human_bytes(*limit)));
}

}  // namespace

MemoryRoom memory_room(int threads) {
  MemoryRoom room;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t pages = number_in("/proc/self/statm").value_or(0);
    const uint64_t used = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t heaps = static_cast<uint64_t>(threads - 1) * (uint64_t{64} << 20);
    tighten(room, left(limit.rlim_cur, used + heaps),
            fmt::format("the address-space limit of {} (ulimit -v)", human_bytes(limit.rlim_cur)));
  }
  tighten_cgroup(room, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                 "/sys/fs/cgroup/memory.stat", "inactive_file");
  tighten_cgroup(room, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                 "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat",
                 "total_inactive_file");
  const uint64_t available = field_of("/proc/meminfo", "MemAvailable:") * 1024;
  if (available > 0)
    tighten(room, available + field_of("/proc/meminfo", "SwapFree:") * 1024, "this machine's free memory");
  return room;
}

}  // namespace tachy
