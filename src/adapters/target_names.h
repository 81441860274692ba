// Finds a model's tensors by all the names that adapters give them: in diffusers' spelling and in the
// original's, with dots or underscores between the pieces, and with any of the prefixes that trainers add.
// There is no pattern for each trainer: a name is looked up among those that the model really has.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

// Something that an adapter may change: a layer, or a single vector or table. Holds tensors of the source.
struct AdapterTarget {
  std::string name;  // in the model's spelling: blocks.0.attn1.to_q
  const TensorSource::Entry* weight = nullptr;
  const TensorSource::Entry* bias = nullptr;
  const TensorSource::Entry* modulation = nullptr;  // belongs to a block, or to the head
};

class TargetNames {
 public:
  using Respell = std::string (*)(std::string_view name);

  // respell: returns the other spelling of a tensor's name in the source.
  TargetNames(const TensorSource& source, Respell respell);

  struct Found {
    const AdapterTarget* target = nullptr;  // null: no such name
    bool ambiguous = false;                 // two targets have this name if dots become underscores
    std::string_view prefix;                // the text before the name
  };
  // `stem` is that of an adapter's key, with its prefix.
  Found find(std::string_view stem) const;

 private:
  void add_name(std::string_view spelled, const std::string& target);

  std::map<std::string, AdapterTarget, std::less<>> targets_;  // by name in the model's spelling
  struct Named {
    std::string target;
    bool ambiguous = false;
  };
  std::map<std::string, Named, std::less<>> names_;  // with underscores
};

}  // namespace tachy
