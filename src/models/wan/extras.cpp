#include "models/wan/extras.h"

#include <algorithm>

namespace tachy {

bool WanExtras::Entry::defined() const {
  return std::ranges::any_of(tensors(value.get()), [](const Tensor& t) { return t.defined(); });
}

void WanExtras::put_entry(Entry entry) {
  const auto same = std::ranges::find(entries_, entry.type, &Entry::type);
  if (same == entries_.end())
    entries_.push_back(std::move(entry));
  else
    *same = std::move(entry);
}

void WanExtras::add_missing(const WanExtras& others) {
  for (const Entry& entry : others.entries_)
    if (std::ranges::find(entries_, entry.type, &Entry::type) == entries_.end()) entries_.push_back(entry);
}

std::vector<Tensor> WanExtras::tensors() const {
  std::vector<Tensor> all;
  for (const Entry& entry : entries_) {
    const std::vector<Tensor> some = entry.tensors(entry.value.get());
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace tachy
