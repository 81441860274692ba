// An adapter's file held against a model: which of the model's tensors it changes and how, and what of it fits
// nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter_file.h"
#include "adapters/expert_name.h"
#include "adapters/target_names.h"
#include "adapters/weight_change.h"

namespace tachy {

// A part of a model, and what is found for it.
struct AdapterPart {
  std::string name;          // "transformer", "transformer_2", "text encoder"
  const TargetNames* names;  // of its tensors
};

struct Unmatched {
  std::string key;     // the layer as the file spells it
  std::string reason;  // "the model has no layer of this name"
};

struct AdapterMatch {
  struct Part {
    std::string name;
    std::vector<std::shared_ptr<const WeightChange>> changes;
  };
  std::vector<Part> parts;  // as asked for
  std::vector<Unmatched> unmatched;
  int64_t layers = 0;                           // of the file
  int64_t matched = 0;                          // of them
  int64_t zero = 0;                             // deltas that hold nothing but zeros: matched, no change
  std::vector<std::string> prefixes, suffixes;  // as met in the file, for reports
  bool original_names = false, underscores = false;
  // For a model with two experts: which one the file went to, and what said so: "the word 'HIGH' in its name".
  AdapterExpert expert = AdapterExpert::unsaid;
  std::string expert_from;
  std::string hint;  // which model the file seems to be made for, where shapes do not fit; or empty
};

struct AdapterTargets {
  std::vector<AdapterPart> transformers;  // one, or the high-noise expert and then the low-noise one
  const TargetNames* text_encoder = nullptr;
  AdapterExpert expert = AdapterExpert::unsaid;
};

// Throws invalid_argument when the model has two experts and neither the caller nor the file says which one is
// meant; corrupt for a file whose numbers are none.
AdapterMatch match_adapter(const AdapterFile& file, const AdapterTargets& targets);

}  // namespace tachy
