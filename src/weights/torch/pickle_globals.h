// The names that a pickle mentions: storages, dtypes and the few functions that build tensors of them, which are known
// here; any other class or function, which is a text and no more; and those that are there to run code.
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
                                  kParameterState = "torch._utils._rebuild_parameter_with_state",
                                  kTypedTensor = "torch._tensor._rebuild_from_type_v2",
                                  kDefaultDict = "collections.defaultdict";

// Null for another name.
const StorageName* find_storage(std::string_view name);
const StorageName* find_dtype(std::string_view name);

// Whether a file that names it was made to run something on the machine that loads it. Nothing is run here, whatever the name;
// such a file is refused nevertheless, by this name, since its next reader may be another program.
bool runs_code(std::string_view name);

}  // namespace tachy
