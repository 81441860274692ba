// The names that a state dict's pickle may mention: storages, dtypes and the few functions that build tensors
// of them.
#pragma once

#include <string_view>

#include "tensor/dtype.h"

namespace tachy {

struct StorageName {
  std::string_view name;
  DType dtype;
  bool untyped = false;  // counted in bytes
};

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict",
                                  kTensor2 = "torch._utils._rebuild_tensor_v2",
                                  kTensor3 = "torch._utils._rebuild_tensor_v3",
                                  kParameter = "torch._utils._rebuild_parameter",
                                  kParameterState = "torch._utils._rebuild_parameter_with_state";

// Null for another name.
const StorageName* find_storage(std::string_view name);
const StorageName* find_dtype(std::string_view name);

bool is_known_global(std::string_view name);

}  // namespace tachy
