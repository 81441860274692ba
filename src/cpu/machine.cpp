#include "cpu/machine.h"

#include <fmt/format.h>
#include <hwy/base.h>
#include <hwy/targets.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/os/memory.h"
#include "base/os/processors.h"
#include "base/thread_pool.h"
#include "cpu/isa.h"

namespace tachy::cpu {

Machine describe_machine() {
  Machine m;
  const os::ProcessorFacts facts = os::processor_facts();
  m.cpu = facts.name;
  static constexpr std::string_view kNamed[] = {
      "sse4_1",      "avx",      "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
      "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"};
  for (const std::string& feature : facts.features)
    if (std::find(std::begin(kNamed), std::end(kNamed), feature) != std::end(kNamed))
      m.isa.push_back(feature);
  const int64_t target = highway_target();
  m.simd_target = target ? hwy::TargetName(target) : "none";
  m.vector_code = common_name(m.simd_target);
  m.compiled_for = compiled_for();
  for (const auto& cache : facts.caches) m.caches.emplace_back("L" + cache.level, cache.size);
  m.processors = os::online_processors();
  m.usable = available_processors();
  const os::MachineMemory memory = os::machine_memory();
  m.memory_bytes = memory.total;
  m.available_bytes = memory.available;
  for (const os::ContainerMemory& container : os::container_memory())
    if (m.memory_limit_bytes == 0) m.memory_limit_bytes = container.limit;
  const dnnl_version_t* v = dnnl_version();
  m.libraries = {{"oneDNN", fmt::format("{}.{}.{}", v->major, v->minor, v->patch)},
                 {"Highway", TACHY_HIGHWAY_VERSION}};
  return m;
}

}  // namespace tachy::cpu
