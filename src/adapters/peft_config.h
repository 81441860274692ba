// How PEFT scales the layers of an adapter, according to adapter_config.json beside the file, or to the copy
// that diffusers writes into the file's header (`lora_adapter_metadata`, with the name of the model's part as
// a prefix).
//
// PEFT's own rules, by its code (peft/utils/other.py get_pattern_key; tuners/lora, loha and lokr):
//   alpha of a layer   the value of the first key in `alpha_pattern`, in the file's order, for which Python's
//                      re.match("(.*\.)?(KEY)$", name) finds something; otherwise `lora_alpha` (`alpha` in LoHa and
//                      LoKr), which is 8 if it is not given
//   rank of a layer    the same with `rank_pattern` and `r`
//   scale              alpha / rank, or alpha / sqrt(rank) with `use_rslora`
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

struct PeftScale {
  double alpha = 1;
  double rank = 1;  // the configuration's rank, for layers whose tensors do not tell it
  bool rslora = false;
  std::string from;  // "adapter_config.json", "lora_adapter_metadata"
};

// Returns for each layer, given by its name in the file, what the configuration of the adapter at `path`
// says, or nothing if it does not mention the layer. A pattern that fits no layer causes a warning. Throws
// corrupt for values of a wrong kind, and unsupported for patterns that cannot be matched or take too long,
// and for adapters of a model that was changed before.
std::vector<std::optional<PeftScale>> peft_scales(const std::filesystem::path& path,
                                                  const TensorSource& source,
                                                  std::span<const std::string> layers);

}  // namespace tachy
