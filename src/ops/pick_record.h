// What the picking rule came to: which implementation each op got, and for how many of its calls. A measure
// run writes it down (Hooks::picks), with why not a better one, so that a plan can show it before anything is
// computed. The computing run after it is compared with the plan (Hooks::planned).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace tachy::ops {

struct OpPick {
  std::string op, impl, why;  // why: of the implementations before it in the op's table, or ""
  int64_t calls = 0;
};

class PickRecord {
 public:
  void note(const char* op, const char* impl, std::string why);
  // What was noted since `before`, a copy of this, stands for `times` times as many calls.
  void repeat_since(const PickRecord& before, int64_t times);
  std::vector<OpPick> picks() const;  // by op, what most of its calls get first

 private:
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> calls_;
};

// A computing run beside its plan. An implementation that the plan did not count may need scratch that it did
// not count, either: it is worth a line that asks for a report, and where the scratch is indeed too small the
// arena ends the run.
class PickCheck {
 public:
  explicit PickCheck(std::span<const OpPick> planned) : planned_(planned) {}

  void note(const char* op, const char* impl);  // names that live as long as this: an op's and its table's
  std::vector<OpPick> picks() const;            // by op; why: "", or that the plan has no such pick

 private:
  struct Pick {
    const char *op, *impl;
    bool planned;
    int64_t calls;
  };
  bool is_planned(std::string_view op, std::string_view impl) const;

  std::span<const OpPick> planned_;
  std::vector<Pick> picks_;  // a few: found by the addresses of its names
};

}  // namespace tachy::ops
