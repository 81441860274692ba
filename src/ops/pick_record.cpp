#include "ops/pick_record.h"

#include <algorithm>

namespace tachy::ops {

void PickRecord::note(const char* op, const char* impl, std::string why) {
  ++calls_[{op, impl, std::move(why)}];
}

std::vector<OpPick> PickRecord::picks() const {
  std::vector<OpPick> out;
  for (const auto& [key, calls] : calls_)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), calls});
  std::stable_sort(out.begin(), out.end(), [](const OpPick& a, const OpPick& b) {
    return a.op != b.op ? a.op < b.op : a.calls > b.calls;
  });
  return out;
}

}  // namespace tachy::ops
