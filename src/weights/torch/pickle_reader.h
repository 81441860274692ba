// A pickle interpreter that builds plain values and executes nothing.
//
// Tensors are what is wanted; beside them checkpoints hold configs, schedulers and states of random generators, objects of
// any class. Those become `opaque` values: their class is a text here, and what would have made them is skipped.
//
// Values are nodes of one flat array and refer to each other by index: shared and cyclic references cost
// nothing, and no recursion happens here. The node count, memo and stack are capped.
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
  DType dtype = DType::f32;  // storage, tensor
  bool untyped = false;      // storage: counted in bytes
  int64_t integer = 0;       // boolean, integer; storage: elements; tensor: offset in elements
  // string; global: "module.name"; opaque: the class or function, "" where it has no name; storage, tensor: the storage's key
  std::string text;
  std::vector<PickleIndex> items;      // tuple, list; dict: key, value, key, value …
  std::vector<int64_t> dims, strides;  // tensor
  std::string unread = {};             // storage, tensor: the dtype, where it is none that is known here
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& operator[](PickleIndex i) const { return values[i]; }
};

// `what` names file and entry in errors. Globals that exist
// to run code (pickle_globals.h): unsupported, by name.
Pickle read_pickle(std::span<const std::byte> bytes, std::string_view what);

}  // namespace tachy
