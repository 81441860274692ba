// How PEFT scales the layers of an adapter: what adapter_config.json beside the file says, or what diffusers writes of it
// into the file's header (`lora_adapter_metadata`, behind the name of the model's part).
//
// PEFT's own rules, by its code (peft/utils/other.py get_pattern_key; tuners/lora, loha and lokr):
//   alpha of a layer   the value of the first key in `alpha_pattern`, in the file's order, for which Python's
//                      re.match("(.*\.)?(KEY)$", name) finds something; otherwise `lora_alpha` (`alpha` in LoHa and
//                      LoKr), which is 8 where it is not given
//   rank of a layer    the same by `rank_pattern` and `r`
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
  double rank = 1;  // as the configuration has it, for layers whose tensors do not say it
  bool rslora = false;
  std::string from;  // "adapter_config.json", "lora_adapter_metadata"
};

// Returns what the configuration of the adapter at `path` says of each of the layers that are named so in the file, and
// nothing for those that it does not mention. A pattern that fits no layer is a warning. Throws corrupt for values of another
// kind, unsupported for patterns that cannot be matched or take too long, and for adapters of a changed model.
std::vector<std::optional<PeftScale>> peft_scales(const std::filesystem::path& path,
                                                  const TensorSource& source,
                                                  std::span<const std::string> layers);

}  // namespace tachy
