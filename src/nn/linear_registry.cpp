#include "nn/linear_registry.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/near_names.h"

namespace tachy::nn {
namespace {

constexpr size_t kNearest = 4;

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
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name());
  return near_names(name, names, count);
}

}  // namespace tachy::nn
