#include "picks.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace tachy::cli {

using nlohmann::json;

json picks_json(const StagePlan& stage) {
  json out = json::array();
  for (const ops::OpPick& p : stage.picks)
    out.push_back({{"op", p.op}, {"implementation", p.impl}, {"calls", p.calls}, {"not", p.why}});
  return out;
}

namespace {

// "attention cpu, copy cpu, gemm f32 (12) split (2)": counts only where an op gets several implementations.
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
    if (!s.picks.empty()) fmt::print("ops of {:<9}{}\n", s.name + ":", picks_text(s));
}

}  // namespace tachy::cli
