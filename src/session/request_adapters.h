// The adapters that a request asks for (`loras`), held against its model: what is merged into the model's
// tensors, and what is added to its products while it runs.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/match.h"
#include "catalog/model_bundle.h"
#include "nn/adapter_set.h"
#include "session/parts.h"

namespace tachy {

// One of `loras`: "follow.safetensors", "folder:0.8", "light.safetensors:1@high".
struct LoraSpec {
  std::string path;
  std::optional<double> strength;  // not given: 1, or for the first of them what the preset says
  AdapterExpert expert = AdapterExpert::unsaid;
};
LoraSpec parse_lora(const std::string& text);  // throws invalid_argument

struct RequestAdapters {
  ModelBundle model;  // the caller's, with what is merged
  // What distinguishes a part from that of the model as it is; empty where nothing is merged into it.
  std::array<std::string, 3> keys;                         // transformer, transformer_2, text encoder
  std::array<std::vector<nn::LowRank>, 2> added;           // at run time, to the transformers
  std::array<std::string, 2> added_keys;                   // what those are, whatever their strengths
  std::vector<std::shared_ptr<const TensorSource>> files;  // that these lie in
  std::vector<std::shared_ptr<const void>> owners;

  const std::string& key(Part part) const;
};

enum class LoraMode { automatic, merge, runtime };

// Null when the request asks for none. Throws not_found when nothing of a file fits the model; what does not
// fit of one that does is a warning, or with lora_unmatched "error" an error. keep_loaded: further requests are
// expected, which automatic mode leaves the model's weights alone for.
std::shared_ptr<const RequestAdapters> open_adapters(const ModelBundle& model, const VideoRequest& request,
                                                     bool keep_loaded);

// The names that adapters of this model's parts may have.
struct ModelNames {
  explicit ModelNames(const ModelBundle& model);
  AdapterTargets targets(AdapterExpert expert) const;

 private:
  std::vector<std::unique_ptr<TargetNames>> transformers_;
  std::optional<TargetNames> text_;  // of models that read one
};

}  // namespace tachy
