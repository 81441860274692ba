// The machine's processors: how many this process may use, what they are, and instructions that the system has to allow.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tachy::os {

int online_processors();
std::optional<int> allowed_processors();  // by the affinity mask, where there is one
double processor_quota();                 // what a container grants: 2.5 processors; 0: no limit

struct ProcessorFacts {
  struct Cache {
    std::string level, size;  // "2" and "2048K"
  };
  std::string name;                   // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> features;  // the system's words: "avx2", "amx_bf16"
  std::vector<Cache> caches;          // of data, from the nearest on
};
ProcessorFacts processor_facts();

// Whether this process may use the tiles of AMX, whose state the system keeps only for those who ask. Only to be asked where the
// processor has them.
bool request_tiles();
// Whether processor and system have Arm's bf16 instructions (FEAT_BF16).
bool has_arm_bf16();

}  // namespace tachy::os
