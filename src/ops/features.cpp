#include "ops/features.h"

#include <fmt/format.h>

#include "base/environment.h"
#include "cpu/machine.h"
#include "cpu/panels.h"

namespace tachy::ops {

std::optional<Refusal> why_no_bf16() { return cpu::panels_why_not(Compute::bf16); }

std::string describe_arithmetic() {
  const cpu::Machine m = cpu::describe_machine();
  std::string out = fmt::format("{}; {}; {}", m.cpu, m.simd_target, fmt::join(m.isa, " "));
  // The sizes of caches matter, because tile sizes depend on them.
  for (const auto& [name, size] : m.caches) out += fmt::format("; {} {}", name, size);
  for (const auto& [name, version] : m.libraries) out += fmt::format("; {} {}", name, version);
  for (const auto& [name, value] : recorded_environment()) out += fmt::format("; {}={}", name, value);
  return out;
}

}  // namespace tachy::ops
