#include "base/near_names.h"

#include <algorithm>
#include <numeric>

namespace tachy {
namespace {

constexpr size_t kLongestWord = 256;

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names,
                                    size_t count) {
  if (name.size() > kLongestWord) return {};
  std::vector<std::pair<size_t, size_t>> ranked;  // distance, then position in the list of names
  for (size_t i = 0; i < names.size(); ++i)
    ranked.emplace_back(distance(name, std::string_view(names[i]).substr(0, kLongestWord)), i);
  std::ranges::sort(ranked);
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) out.push_back(names[ranked[i].second]);
  return out;
}

}  // namespace tachy
