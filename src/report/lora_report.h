// The report of `tachyscope lora`: the contents of an adapter's file, and how much of it fits a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_paths.h"

namespace tachy {

struct LoraReport {
  std::string path, model;
  std::vector<std::string> kinds;   // "LoRA (280)", "delta (12)"
  std::string spelling;             // "original names behind diffusion_model., .lora_down.weight"
  std::vector<std::string> ranks;   // "16 (40 layers)"
  std::vector<std::string> scales;  // "alpha of the file (280 layers)"
  int64_t layers = 0, matched = 0, zero = 0;
  std::string hint, expert, expert_from;  // "high", "the word 'HIGH' in its name"
  struct Part {
    std::string name;
    int64_t changed = 0;  // number of the model's tensors that change
  };
  std::vector<Part> parts;
  // The ratio |change| / |weights| (Frobenius, strength 1) over all tensors of a group that change. The
  // length of the weights is estimated from a sample of their rows.
  struct Group {
    std::string name;  // "self-attention", "feed-forward"
    int64_t tensors = 0;
    double relative = 0;
  };
  std::vector<Group> groups;
  struct Left {
    std::string key, reason;
  };
  std::vector<Left> unmatched;
};

// `lora` is FILE[@high|@low|@both], as in VideoRequest::loras. Throws what opening the file or the model
// throws; if nothing fits, the report says so.
LoraReport describe_lora(const std::string& lora, const std::filesystem::path& model, const PartPaths& parts);

}  // namespace tachy
