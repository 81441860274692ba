#include "request/level.h"

#include <algorithm>

#include "base/error.h"
#include "request/request.h"

namespace tachy {

const std::vector<Level>& levels() {
  static const std::vector<Level> list = {
      {"none", {.reference = true}, "every op runs its definition in plain loops: slow, for comparison"},
      {"safe", {}, "fast implementations in float32: the default"},
      {"aggressive",
       {.compute = Compute::bf16},
       "safe, and products in bf16 (sums in float32) where the CPU has them"},
      {"extreme",
       {.compute = Compute::bf16, .step_cache = 0.1},
       "aggressive, and the step cache: steps whose input changed little are skipped"},
  };
  return list;
}

Choices level_names() {
  Choices names;
  for (const Level& level : levels()) names.emplace_back(level.name);
  return names;
}

const Level& find_level(std::string_view name) {
  check_choice("level", name, level_names());
  return *std::find_if(levels().begin(), levels().end(), [&](const Level& l) { return name == l.name; });
}

Compute parse_compute(const std::string& dtype) {
  require(dtype == "f32" || dtype == "bf16", "`dtype`: expected f32 or bf16, got '{}'", dtype);
  return dtype == "bf16" ? Compute::bf16 : Compute::f32;
}

Mode mode_of(const VideoRequest& r) {
  return {.reference = find_level(r.level).mode.reference,
          .compute = parse_compute(r.dtype.value_or("f32")),
          .step_cache = r.step_cache.value_or(0)};
}

}  // namespace tachy
