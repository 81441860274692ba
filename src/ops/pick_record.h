// Results of the picking rule: which implementation each op got, and for how many of its calls. A measure run
// records them (Hooks::picks), with the reasons against better ones, so that a plan can show them before
// anything is computed. The computing run after it is compared with the plan (Hooks::planned).
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
  // why: the reasons against the implementations before it in the op's table, or "".
  std::string op, impl, why;
  int64_t calls = 0;
};

class PickRecord {
 public:
  void note(const char* op, const char* impl, std::string why);
  // Counts the calls that were noted since `before`, a copy of this object, `times` times.
  void repeat_since(const PickRecord& before, int64_t times);
  std::vector<OpPick> picks() const;  // by op, the most frequent pick first

 private:
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> calls_;
};

// Compares a computing run with its plan. An implementation that the plan did not count may need scratch that
// it did not count, either. So a pick that differs gets a line in the log that asks for a report; if the
// scratch is indeed too small, the arena ends the run.
class PickCheck {
 public:
  explicit PickCheck(std::span<const OpPick> planned) : planned_(planned) {}

  // The names of the op and its implementation must live as long as this object.
  void note(const char* op, const char* impl);
  std::vector<OpPick> picks() const;  // by op; `why` is "", or says that the plan has no such pick

 private:
  struct Pick {
    const char *op, *impl;
    bool planned;
    int64_t calls;
  };
  bool is_planned(std::string_view op, std::string_view impl) const;

  std::span<const OpPick> planned_;
  std::vector<Pick> picks_;  // only a few, found by the addresses of their names
};

}  // namespace tachy::ops
