// The linear layers of a model by their names in its checkpoint (blocks.3.attn1.to_q), no matter whether a
// layer is a product of its own or a part of one. Reports, tests and adapter files use these names.
#pragma once

#include <deque>
#include <map>
#include <string_view>

#include "nn/linear.h"

namespace tachy::nn {

class LinearRegistry {
 public:
  struct Entry {
    Linear linear;
    size_t index = 0;  // index of the part in linear.parts()
    const Linear::Part& part() const { return linear.parts()[index]; }
    const std::string& name() const { return part().name; }
  };

  // Throws `internal` if the registry already has the name.
  void add(const Linear& linear);

  const Entry* find(std::string_view name) const;
  // Throws `not_found` with the nearest names. `model` is the model's name, such as "transformer".
  const Entry& at(std::string_view name, std::string_view model) const;

  // Entries have the order in which the model was built.
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<std::string> nearest(std::string_view name, size_t count) const;

  std::deque<Entry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace tachy::nn
