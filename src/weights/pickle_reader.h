// A pickle interpreter that builds plain values and executes nothing.
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
    tensor
  };
  Kind kind = Kind::none;
  DType dtype = DType::f32;            // storage, tensor
  bool untyped = false;                // storage: counted in bytes
  int64_t integer = 0;                 // boolean, integer; storage: elements; tensor: offset in elements
  std::string text;                    // string; global: "module.name"; storage, tensor: the storage's key
  std::vector<PickleIndex> items;      // tuple, list; dict: key, value, key, value …
  std::vector<int64_t> dims, strides;  // tensor
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& operator[](PickleIndex i) const { return values[i]; }
};

// `what` names file and entry in errors. Globals outside
// the list of state dicts: unsupported, naming the global.
Pickle read_pickle(std::span<const std::byte> bytes, std::string_view what);

}  // namespace tachy
