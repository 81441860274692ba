// The names in a pickle. Storages, dtypes and the few functions that build tensors from them are known here.
// Any other class or function is only a text; some exist to run code.
#pragma once

#include <string_view>

#include "tensor/dtype.h"

namespace tachy {

struct StorageName {
  std::string_view name;
  DType dtype;
  bool untyped = false;  // sizes are counted in bytes
};

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict",
                                  kTensor2 = "torch._utils._rebuild_tensor_v2",
                                  kTensor3 = "torch._utils._rebuild_tensor_v3",
                                  kParameter = "torch._utils._rebuild_parameter",
                                  kParameterState = "torch._utils._rebuild_parameter_with_state",
                                  kTypedTensor = "torch._tensor._rebuild_from_type_v2",
                                  kDefaultDict = "collections.defaultdict";

// Both return null for all other names.
const StorageName* find_storage(std::string_view name);
const StorageName* find_dtype(std::string_view name);

// Says whether a file with this name in it was made to run something on the machine that loads it. Nothing is
// run here, whatever the name. Such a file is still refused, with the name, since another program may read it
// next.
bool runs_code(std::string_view name);

}  // namespace tachy
