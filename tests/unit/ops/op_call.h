// Calls an op by name on named tensors, for tests whose cases PyTorch makes (tests/golden/ops/op_cases.py):
// the golden file (golden_ops_test.cpp) and fresh random inputs (op_call, run by tests/reference/ops.py).
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tensor/stream.h"

namespace tachy {

struct OpCall {
  std::string op;
  nlohmann::json options;  // the op's scalars, by the names of its Args
  std::map<std::string, Tensor> inputs;
  // Makes the output `name`; the caller keeps its memory.
  std::function<Tensor(const std::string& name, DType dtype, std::span<const int64_t> dims)> make_output;
};

void call_op(const OpCall& call, Stream& stream);

}  // namespace tachy
