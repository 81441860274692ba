#include "nn/linear_registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tachy::nn {
namespace {

constexpr size_t kNearest = 4;

// How many letters must be put in, left out or changed to make one name of the other (Levenshtein).
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

void LinearRegistry::add(const Linear& linear) {
  for (size_t i = 0; i < linear.parts().size(); ++i) {
    const bool added = by_name_.emplace(linear.parts()[i].name, entries_.size()).second;
    check(added, ErrorCode::internal, "linear: two layers are named {}", linear.parts()[i].name);
    entries_.push_back({linear, i});
  }
}

const LinearRegistry::Entry* LinearRegistry::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const LinearRegistry::Entry& LinearRegistry::at(std::string_view name, std::string_view model) const {
  if (const Entry* entry = find(name)) return *entry;
  if (entries_.empty())
    fail(ErrorCode::not_found, "{}: expected the name of a linear layer, got '{}'; it has none", model, name);
  fail(ErrorCode::not_found, "{}: expected the name of one of its {} linear layers, got '{}'; near: {}",
       model, size(), name, fmt::join(nearest(name, kNearest), ", "));
}

std::vector<std::string> LinearRegistry::nearest(std::string_view name, size_t count) const {
  std::vector<std::pair<size_t, size_t>> ranked;  // distance, then the model's order
  for (size_t i = 0; i < size(); ++i) ranked.emplace_back(distance(name, entries_[i].name()), i);
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i)
    names.push_back(entries_[ranked[i].second].name());
  return names;
}

}  // namespace tachy::nn
