#include "cpu/machine.h"

#include <fmt/format.h>
#include <hwy/base.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <sstream>

#include "base/thread_pool.h"

namespace tachy::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "key : value" files of /proc; "" when the key is missing.
std::string field(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

uint64_t kilobytes(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10) * 1024; }

uint64_t memory_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::string text = first_line(path);
    const uint64_t limit = std::strtoull(text.c_str(), nullptr, 10);
    if (limit > 0 && limit < (uint64_t{1} << 60)) return limit;
  }
  return 0;
}

}  // namespace

Machine describe_machine() {
  Machine m;
  m.cpu = field("/proc/cpuinfo", "model name");
  if (m.cpu.empty()) m.cpu = field("/proc/cpuinfo", "CPU part");
  std::istringstream flags(field("/proc/cpuinfo", "flags"));
  static constexpr std::string_view kNamed[] = {
      "sse4_1",      "avx",      "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
      "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"};
  for (std::string flag; flags >> flag;)
    if (std::find(std::begin(kNamed), std::end(kNamed), flag) != std::end(kNamed)) m.isa.push_back(flag);
  int64_t best = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())  // the best one is the lowest bit
    if (best == 0 || target < best) best = target;
  m.simd_target = best ? hwy::TargetName(best) : "none";
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(folder + "level"), size = first_line(folder + "size");
    if (!level.empty() && first_line(folder + "type") != "Instruction")
      m.caches.emplace_back("L" + level, size);
  }
  m.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  m.usable = available_processors();
  m.memory_bytes = kilobytes(field("/proc/meminfo", "MemTotal"));
  m.available_bytes = kilobytes(field("/proc/meminfo", "MemAvailable"));
  m.memory_limit_bytes = memory_limit();
  const dnnl_version_t* v = dnnl_version();
  m.libraries = {{"oneDNN", fmt::format("{}.{}.{}", v->major, v->minor, v->patch)},
                 {"Highway", TACHY_HIGHWAY_VERSION}};
  return m;
}

}  // namespace tachy::cpu
