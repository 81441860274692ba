// The machine's processors: how many this process may use, what they are, and which instructions the system
// must permit.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tachy::os {

int online_processors();
std::optional<int> allowed_processors();  // by the affinity mask, if there is one
double processor_quota();                 // the number that a container grants: 2.5 processors; 0: no limit

struct ProcessorFacts {
  struct Cache {
    std::string level, size;  // "2" and "2048K"
  };
  std::string name;                   // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> features;  // in the system's words: "avx2", "amx_bf16"
  std::vector<Cache> caches;          // for data, nearest first
};
ProcessorFacts processor_facts();

// Requests the use of AMX's tiles for this process, whose state the system keeps only on request. Returns
// whether it may. Call it only if the processor has them.
bool request_tiles();
// Says whether processor and system have Arm's bf16 instructions (FEAT_BF16).
bool has_arm_bf16();

}  // namespace tachy::os
