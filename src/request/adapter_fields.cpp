// The fields of adapters.
#include "request/request_fields.h"

namespace tachy {

std::vector<RequestField> adapter_fields() {
  const auto given = [](const VideoRequest& r) { return !r.loras.empty(); };
  return {
      {"loras",
       "loras",
       &VideoRequest::loras,
       "an adapter (LoRA or a relative of it, from any trainer) as FILE[:strength][@high|@low|@both], where "
       "@ names an expert of a model with two; repeat the option for more adapters",
       {},
       given},
      {"lora_mode", "lora_mode", &VideoRequest::lora_mode,
       "how adapters are applied: merge (into the weights: takes time at the start, none per step), runtime "
       "(added to the products: no time at the start, some per step) or auto (default: runtime if the model "
       "stays loaded for more requests, and on a GPU unless products are in 8 bits)",
       Choices{"auto", "merge", "runtime"}, given},
      {"lora_unmatched", "lora_unmatched", &VideoRequest::lora_unmatched,
       "what to do with layers of an adapter that do not fit the model: warn (default; leave them out) or "
       "error",
       Choices{"warn", "error"}, given},
  };
}

}  // namespace tachy
