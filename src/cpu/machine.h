// Facts about the CPU, the memory and the container this process runs in, as the system states them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tachy::cpu {

struct Machine {
  std::string cpu;               // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> isa;  // of the kind that matters here: "avx2", "amx_bf16", …
  std::string simd_target;       // what Highway picks: "AVX3"
  std::string compiled_for;      // the only one there is (TACHY_CPU_TARGETS=native); "" where all are
  std::vector<std::pair<std::string, std::string>> caches;  // "L2" and "2048K"
  int processors = 0, usable = 0;                           // online; after affinity mask and CPU quota
  uint64_t memory_bytes = 0, available_bytes = 0;
  uint64_t memory_limit_bytes = 0;                             // of the container; 0: none
  std::vector<std::pair<std::string, std::string>> libraries;  // of the ops: oneDNN, Highway
};

Machine describe_machine();

}  // namespace tachy::cpu
