#include "pipelines/level.h"

#include <string>

#include "base/error.h"

namespace tachy {

const std::vector<Level>& levels() {
  static const std::vector<Level> list = {
      {"none", {.reference = true}, "every op runs its definition in plain loops: the yardstick, slow"},
      {"safe", {}, "fast float32 implementations: the default and the proof"},
      {"aggressive",
       {.compute = Compute::bf16},
       "safe, and products in bf16 (sums in float32) where the CPU has them"},
      {"extreme",
       {.compute = Compute::bf16, .step_cache = 0.1},
       "aggressive, and the step cache: steps whose input changed little are skipped"},
  };
  return list;
}

const Level& find_level(std::string_view name) {
  std::string known;
  for (const Level& level : levels()) {
    if (name == level.name) return level;
    known += (known.empty() ? "" : ", ") + std::string(level.name);
  }
  fail(ErrorCode::invalid_argument, "--level: expected one of {}, got '{}'", known, name);
}

}  // namespace tachy
