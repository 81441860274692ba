// Compares an adapter's file with a model: which of the model's tensors it changes and how, and which of its
// layers fit nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter_file.h"
#include "adapters/expert_name.h"
#include "adapters/target_names.h"
#include "adapters/weight_change.h"

namespace tachy {

// A part of a model and its names.
struct AdapterPart {
  std::string name;          // "transformer", "transformer_2", "text encoder"
  const TargetNames* names;  // the names of its tensors
};

struct Unmatched {
  std::string key;     // the layer's name as in the file
  std::string reason;  // "the model has no layer of this name"
};

struct AdapterMatch {
  struct Part {
    std::string name;
    std::vector<std::shared_ptr<const WeightChange>> changes;
  };
  std::vector<Part> parts;  // in the given order of the model's parts
  std::vector<Unmatched> unmatched;
  int64_t layers = 0;                           // layers in the file
  int64_t matched = 0;                          // those that fit the model
  int64_t zero = 0;                             // deltas that are all zeros: they match, but change nothing
  std::vector<std::string> prefixes, suffixes;  // as found in the file, for reports
  bool original_names = false, underscores = false;
  // For a model with two experts: the expert for which the file was used, and the reason, such as "the word
  // 'HIGH' in its name".
  AdapterExpert expert = AdapterExpert::unsaid;
  std::string expert_from;
  std::string hint;  // the model for which the file seems to be made, if shapes do not fit; may be empty
};

struct AdapterTargets {
  std::vector<AdapterPart> transformers;  // one, or the high-noise expert and then the low-noise one
  const TargetNames* text_encoder = nullptr;
  AdapterExpert expert = AdapterExpert::unsaid;
};

// Throws invalid_argument if the model has two experts and neither the caller nor the file says which one is
// meant, and corrupt if the file contains values that are not numbers.
AdapterMatch match_adapter(const AdapterFile& file, const AdapterTargets& targets);

}  // namespace tachy
