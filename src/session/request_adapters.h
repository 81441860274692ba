// The adapters that a request asks for (`loras`), matched against its model: some are merged into the model's
// tensors, others are added to its products while it runs.
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

// One entry of `loras`: "follow.safetensors", "folder:0.8", "light.safetensors:1@high".
struct LoraSpec {
  std::string path;
  std::optional<double> strength;  // not given: 1, or the preset's value for the first entry
  AdapterExpert expert = AdapterExpert::unsaid;
};
LoraSpec parse_lora(const std::string& text);  // throws invalid_argument

struct RequestAdapters {
  ModelBundle model;  // the caller's, with the merged adapters
  // Each key distinguishes a part from the model's own one; it is empty if nothing is merged into the part.
  std::array<std::string, 3> keys;                // transformer, transformer_2, text encoder
  std::array<std::vector<nn::LowRank>, 2> added;  // added to the transformers' products at run time
  std::array<std::string, 2> added_keys;          // identify the added adapters, whatever their strengths
  std::vector<std::shared_ptr<const TensorSource>> files;  // files in which the added adapters lie
  std::vector<std::shared_ptr<const void>> owners;

  const std::string& key(Part part) const;
};

enum class LoraMode { automatic, merge, runtime };

// Returns null if the request asks for no adapters. Throws not_found if nothing in a file fits the model. If
// only some of it does not fit, this is a warning, or an error with lora_unmatched "error". keep_loaded says
// that further requests are expected, so automatic mode leaves the model's weights unchanged.
std::shared_ptr<const RequestAdapters> open_adapters(const ModelBundle& model, const VideoRequest& request,
                                                     bool keep_loaded);

// The names that adapters may use for the parts of this model.
struct ModelNames {
  explicit ModelNames(const ModelBundle& model);
  AdapterTargets targets(AdapterExpert expert) const;

 private:
  std::vector<std::unique_ptr<TargetNames>> transformers_;
  std::optional<TargetNames> text_;  // for models that read a text
};

}  // namespace tachy
