// What the picking rule came to in a run: which implementation each op got, for how many of its calls, and why
// not a better one. A measure run writes it down (Hooks::picks), so that a plan can show it before anything
// is computed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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
  std::vector<OpPick> picks() const;  // by op, what most of its calls get first

 private:
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> calls_;
};

}  // namespace tachy::ops
