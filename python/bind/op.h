// The ops as Python sees them: a single table, from which both the module without torch (core.cpp) and the
// registration with torch (torch_ops.cpp) are made. An op consists of its signature, written in torch's form,
// a function that checks the arguments and describes the results, and a function that computes.
//
// Tensors come as views of the caller's tensors, of any rank up to 6, any strides, and f32, f16 or bf16; on
// the CPU also f64, which runs the definitions (gradients are checked in f64).
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind/context.h"
#include "bind/shown.h"
#include "tensor/tensor.h"

namespace tachy::python {

// One argument. The signature tells which member is used.
struct Value {
  Tensor tensor;  // undefined if an optional tensor was left out
  double number = 0;
  int64_t integer = 0;  // also holds a bool
};
using Inputs = std::span<const Value>;

// Describes a result. The caller makes the tensor, with memory of its framework.
struct Result {
  DType dtype = DType::f32;
  int rank = 0;
  int64_t dims[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};  // in elements
  bool absent = false;  // the gradient of an argument that was not given: a tensor without values, or none

  static Result contiguous(DType dtype, std::span<const int64_t> dims);
  static Result contiguous(DType dtype, std::initializer_list<int64_t> dims) {
    return contiguous(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
};

// The results of an op, in order.
class Results {
 public:
  static constexpr size_t kMost = 5;
  Results(std::initializer_list<Result> all) : count_(all.size()) {
    check(count_ <= kMost, ErrorCode::internal, "an op of {} results", count_);
    std::ranges::copy(all, all_);
  }
  size_t size() const { return count_; }
  const Result& operator[](size_t i) const { return all_[i]; }
  const Result* begin() const { return all_; }
  const Result* end() const { return all_ + count_; }

 private:
  Result all_[kMost];
  size_t count_;
};

struct Op {
  const char* name;
  const char* signature;  // "(Tensor x, Tensor? weight, float eps) -> Tensor"
  Results (*results)(Inputs in);
  void (*run)(Inputs in, std::span<const Tensor> out, Context& context);
  bool in_place = false;  // whether the caller may give the first argument itself as a result
};

// Returns all ops; an op's index is fixed while the library is loaded.
std::span<const Op> op_table();

enum class Kind { tensor, optional_tensor, number, integer, flag };
struct Argument {
  Kind kind;
  std::string name;
};
// A parsed signature. The last arguments may only be left out if they have a default in Python.
struct Signature {
  std::vector<Argument> arguments;
  int results = 0;
};
Signature parse_signature(const Op& op);

// Runs the op. `out` has the results, with the shapes that `results` gave; absent ones may be undefined. The
// function also makes the checks that the ops themselves do not make: one device for all tensors, and results
// that do not overlap.
void run_op(const Op& op, const Signature& signature, Inputs in, std::span<const Tensor> out,
            Context& context);
// Throws unless a result that the caller gives is like the one that the op would make (strides are free).
void expect_result(const Op& op, const Tensor& given, const Result& expected, const Tensor& first);

}  // namespace tachy::python
