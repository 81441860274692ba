// The machine's processors: what they are, how many this process may use, and the instructions that need the
// system's permission.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tachy::os {

int online_processors();
std::optional<int> allowed_processors();  // from the affinity mask, if there is one
double processor_quota();                 // how many a container grants, such as 2.5; 0 means no limit

struct ProcessorFacts {
  struct Cache {
    std::string level, size;  // "2" and "2048K"
  };
  std::string name;                   // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> features;  // as the system names them: "avx2", "amx_bf16"
  std::vector<Cache> caches;          // data caches, nearest first
};
ProcessorFacts processor_facts();

// Asks the system for permission to use AMX's tiles in this process, because it keeps their state only on
// request. Returns whether they may be used. Call this only if the processor has them.
bool request_tiles();
// Says whether both the processor and the system support Arm's bf16 instructions (FEAT_BF16).
bool has_arm_bf16();

}  // namespace tachy::os
