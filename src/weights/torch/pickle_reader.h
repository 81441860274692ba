// A pickle interpreter that builds plain values and executes nothing.
//
// Only tensors are wanted, but checkpoints also contain objects of any class: configs, schedulers and states
// of random generators. These become `opaque` values, for which only the class's name is kept; whatever would
// have built them is skipped.
//
// Values are nodes of one flat array and refer to each other by index, so shared and cyclic references cost
// nothing, and nothing here recurses. The number of nodes, the memo and the stack are limited.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace tachy {

using PickleIndex = uint32_t;

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    string,
    tuple,
    list,
    dict,
    global,
    storage,
    tensor,
    opaque
  };
  Kind kind = Kind::none;
  DType dtype = DType::f32;  // for a storage or a tensor
  bool untyped = false;      // for a storage: it is counted in bytes
  // a boolean or an integer; for a storage the number of elements; for a tensor the offset in elements
  int64_t integer = 0;
  // A string. For a global it is "module.name"; for an opaque value its class or function, or "" if that has
  // no name; for a storage or a tensor the storage's key.
  std::string text;
  std::vector<PickleIndex> items;      // of a tuple or a list; of a dict as key, value, key, value …
  std::vector<int64_t> dims, strides;  // of a tensor
  std::string unread = {};             // the dtype of a storage or a tensor, if it is not known here
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& operator[](PickleIndex i) const { return values[i]; }
};

// `what` names file and entry in errors. Throws unsupported, with the names, for globals that exist to run
// code (pickle_globals.h).
Pickle read_pickle(std::span<const std::byte> bytes, std::string_view what);

}  // namespace tachy
