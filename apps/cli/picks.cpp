#include "picks.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/field.h"

namespace tachy::cli {

using nlohmann::json;

json picks_json(const StagePlan& stage) {
  json out = json::array();
  for (const ops::OpPick& p : stage.picks)
    out.push_back({{"op", p.op}, {"implementation", p.impl}, {"calls", p.calls}, {"not", p.why}});
  return out;
}

namespace {

// Returns for example "attention cpu, copy cpu, gemm f32 (12) split (2)": counts are given only if an op gets
// several implementations.
std::string picks_text(const StagePlan& stage) {
  std::map<std::string, std::map<std::string, int64_t>> by_op;
  for (const ops::OpPick& p : stage.picks) by_op[p.op][p.impl] += p.calls;
  std::string text;
  for (const auto& [op, impls] : by_op) {
    text += (text.empty() ? "" : ", ") + op;
    for (const auto& [impl, calls] : impls)
      text += impls.size() == 1 ? " " + impl : fmt::format(" {} ({})", impl, calls);
  }
  return text;
}

}  // namespace

void print_picks(const std::vector<StagePlan>& stages) {
  for (const StagePlan& s : stages)
    if (!s.picks.empty()) fmt::print("ops of {:<14}{}\n", s.name + ":", picks_text(s));
}

json optimisations_json(const std::vector<OptimisationState>& states) {
  json out = json::array();
  for (const OptimisationState& s : states)
    out.push_back({{"name", spelled(s.name)},
                   {"on", s.on},
                   {"why", spelled(s.why)},
                   {"means", s.means},
                   {"worth", s.worth},
                   {"off", spelled(s.off)}});
  return out;
}

void print_optimisations(const std::vector<OptimisationState>& states) {
  fmt::print("{:<25}{:<5}{:<52}{}\n", "optimisation", "", "why", "what it was worth where it was measured");
  for (const OptimisationState& s : states)
    fmt::print("{:<25}{:<5}{:<52}{}\n", spelled(s.name), s.on ? "on" : "off", spelled(s.why), s.worth);
  fmt::print(
      "each is switched off alone by --without NAME, or by the option that it is named by; what each gives "
      "on this machine, tachyscope bench --optimisations measures\n");
}

}  // namespace tachy::cli
