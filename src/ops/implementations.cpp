#include "ops/implementations.h"

#include <algorithm>

#include "base/env.h"
#include "base/error.h"

namespace tachy::ops {
namespace {

std::string known_names() {
  std::string out;
  for (const OptimisationInfo& o : optimisations()) out += fmt::format("{}, ", o.name);
  for (const OptimisationGroup& g : optimisation_groups()) out += fmt::format("{}, ", g.name);
  return out + "or an implementation as op:implementation, such as attention:cpu";
}

std::string trimmed(std::string text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

void add_kernel(const std::string& name, Without& out) {
  const size_t colon = name.find(':');
  const std::string op = name.substr(0, colon), impl = name.substr(colon + 1);
  const auto& all = all_implementations();
  const auto entry = std::ranges::find(all, op, &OpImplementations::op);
  if (entry == all.end()) {
    std::string ops;
    for (const OpImplementations& o : all) ops += (ops.empty() ? "" : ", ") + o.op;
    fail(ErrorCode::invalid_argument, "`without`: no op is named '{}' (in '{}'); there are {}", op, name,
         ops);
  }
  std::string others;
  for (const std::string& n : entry->names)
    if (n != "ref") others += (others.empty() ? "" : ", ") + n;
  require(impl != "ref",
          "`without`: '{}' is the op's definition, which is what is left without the others ({})", name,
          others);
  require(std::ranges::find(entry->names, impl) != entry->names.end(),
          "`without`: no implementation is named '{}'; {} has {}", name, op, others);
  out.add_kernel(op, impl);
}

}  // namespace

std::vector<std::string> without_names(std::span<const std::string> names) {
  std::vector<std::string> out;
  for (const std::string& some : names)
    for (const std::string& part : split(some, ',')) {
      const std::string name = trimmed(part);
      if (name == "nothing") continue;
      if (std::ranges::find(out, name) == out.end()) out.push_back(name);
    }
  return out;
}

Without parse_without(std::span<const std::string> names) {
  Without out;
  for (const std::string& name : without_names(names)) {
    if (name.find(':') != name.npos) {
      add_kernel(name, out);
      continue;
    }
    bool known = false;
    for (const OptimisationInfo& o : optimisations())
      if (name == o.name) out.add(o.which), known = true;
    for (const OptimisationGroup& g : optimisation_groups())
      if (name == g.name) {
        for (const Optimisation o : g.members) out.add(o);
        known = true;
      }
    require(known, "`without`: expected {}, got '{}'", known_names(), name);
  }
  return out;
}

}  // namespace tachy::ops
