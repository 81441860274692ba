#include "ops/pick_record.h"

#include <algorithm>

#include "base/log.h"

namespace tachy::ops {
namespace {

constexpr const char* kNotPlanned = "the plan has no such pick";

std::vector<OpPick> sorted(std::vector<OpPick> picks) {
  std::stable_sort(picks.begin(), picks.end(), [](const OpPick& a, const OpPick& b) {
    return a.op != b.op ? a.op < b.op : a.calls > b.calls;
  });
  return picks;
}

}  // namespace

void PickRecord::note(const char* op, const char* impl, std::string why) {
  ++calls_[{op, impl, std::move(why)}];
}

void PickRecord::repeat_since(const PickRecord& before, int64_t times) {
  for (auto& [key, calls] : calls_) {
    const auto then = before.calls_.find(key);
    calls += (calls - (then == before.calls_.end() ? 0 : then->second)) * (times - 1);
  }
}

std::vector<OpPick> PickRecord::picks() const {
  std::vector<OpPick> out;
  for (const auto& [key, calls] : calls_)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), calls});
  return sorted(std::move(out));
}

bool PickCheck::is_planned(std::string_view op, std::string_view impl) const {
  return std::any_of(planned_.begin(), planned_.end(),
                     [&](const OpPick& p) { return p.op == op && p.impl == impl; });
}

void PickCheck::note(const char* op, const char* impl) {
  for (Pick& p : picks_)
    if (p.impl == impl && p.op == op) {
      ++p.calls;
      return;
    }
  picks_.push_back({op, impl, is_planned(op, impl), 1});
  if (picks_.back().planned) return;
  std::string instead;
  for (const OpPick& p : planned_)
    if (p.op == op) instead += (instead.empty() ? "" : ", ") + p.impl;
  warn("{}: {} computes, which the plan did not count (it has {}): please report this", op, impl,
       instead.empty() ? "no such op" : instead);
}

std::vector<OpPick> PickCheck::picks() const {
  // The same name may lie at several addresses.
  std::map<std::pair<std::string, std::string>, OpPick> by_name;
  for (const Pick& p : picks_) {
    OpPick& pick = by_name[{p.op, p.impl}];
    pick = {p.op, p.impl, p.planned ? "" : kNotPlanned, pick.calls + p.calls};
  }
  std::vector<OpPick> out;
  for (const auto& [name, pick] : by_name) out.push_back(pick);
  return sorted(std::move(out));
}

}  // namespace tachy::ops
