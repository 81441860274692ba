// Facts about the CPU, the memory and the container in which this process runs, as the system reports them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tachy::cpu {

struct Machine {
  std::string cpu;               // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> isa;  // the instruction sets that matter here: "avx2", "amx_bf16", …
  std::string simd_target;       // Highway's choice: "AVX3"
  std::string vector_code;       // the same as its makers call it: "AVX-512"
  std::string compiled_for;      // the only instruction set (TACHY_CPU_TARGETS=native); "" if there are all
  std::vector<std::pair<std::string, std::string>> caches;  // "L2" and "2048K"
  // The processors that are online, and those that affinity mask and CPU quota leave.
  int processors = 0, usable = 0;
  uint64_t memory_bytes = 0, available_bytes = 0;
  uint64_t memory_limit_bytes = 0;                             // the container's limit; 0 if there is none
  std::vector<std::pair<std::string, std::string>> libraries;  // libraries of the ops: oneDNN, Highway
};

Machine describe_machine();

}  // namespace tachy::cpu
