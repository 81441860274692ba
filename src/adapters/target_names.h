// Finds a model's tensors by all names that adapters give them: in diffusers' spelling or the original's,
// with dots or underscores between the parts, and with any prefix that trainers add. There are no patterns
// for trainers: a name is looked up among those that the model has.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

// A layer, vector or table that an adapter may change. It refers to tensors of the source.
struct AdapterTarget {
  std::string name;  // in the model's spelling, such as blocks.0.attn1.to_q
  const TensorSource::Entry* weight = nullptr;
  const TensorSource::Entry* bias = nullptr;
  const TensorSource::Entry* modulation = nullptr;  // belongs to a block, or to the head
};

class TargetNames {
 public:
  using Respell = std::string (*)(std::string_view name);

  // `respell` returns the other spelling of a tensor's name in the source.
  TargetNames(const TensorSource& source, Respell respell);

  struct Found {
    const AdapterTarget* target = nullptr;  // null if there is no such name
    bool ambiguous = false;                 // two targets have this name when dots become underscores
    std::string_view prefix;                // what stands before the name
  };
  // `stem` is that of an adapter's key, including its prefix.
  Found find(std::string_view stem) const;

 private:
  void add_name(std::string_view spelled, const std::string& target);

  std::map<std::string, AdapterTarget, std::less<>> targets_;  // by names in the model's spelling
  struct Named {
    std::string target;
    bool ambiguous = false;
  };
  std::map<std::string, Named, std::less<>> names_;  // by names with underscores
};

}  // namespace tachy
