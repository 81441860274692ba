// The fields of adapters.
#include "pipelines/request_fields.h"

namespace tachy {

std::vector<RequestField> adapter_fields() {
  const auto given = [](const VideoRequest& r) { return !r.loras.empty(); };
  return {
      {"loras",
       "loras",
       &VideoRequest::loras,
       "an adapter (LoRA and its relatives, of any trainer) as FILE[:strength][@high|@low|@both]; again for "
       "each further one; @ names the expert of a model of two",
       {},
       given},
      {"lora_mode", "lora_mode", &VideoRequest::lora_mode,
       "merge: into the weights, at no cost a step; runtime: added to the products, at no cost to begin "
       "with; "
       "auto (default): runtime where the model stays loaded for further requests, and on a GPU unless "
       "products are in 8 bits",
       Choices{"auto", "merge", "runtime"}, given},
      {"lora_unmatched", "lora_unmatched", &VideoRequest::lora_unmatched,
       "what layers of an adapter are that fit nothing in the model: warn (default; they are left out) or "
       "error",
       Choices{"warn", "error"}, given},
  };
}

}  // namespace tachy
