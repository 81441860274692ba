// The ops as Python sees them: one table, from which the module without torch (core.cpp) and the registration with
// torch (torch_ops.cpp) are both made. An op is its signature, written as torch writes one, a function that checks the
// arguments and says what the results are, and a function that computes.
//
// Tensors come as views of what the caller holds, of any rank up to 6, any strides, and f32, f16 or bf16; on the CPU
// also f64, which runs the definitions (gradients are checked there).
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

// One argument. Which member counts is said by the signature.
struct Value {
  Tensor tensor;  // not defined where an optional tensor was left out
  double number = 0;
  int64_t integer = 0;  // also of a bool
};
using Inputs = std::span<const Value>;

// What a result is to be; a fresh one is made by whoever calls, with memory of the caller's framework.
struct Result {
  DType dtype = DType::f32;
  int rank = 0;
  int64_t dims[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};  // in elements
  bool absent = false;             // the gradient of what was not given: a tensor of no values, or none

  static Result contiguous(DType dtype, std::span<const int64_t> dims);
  static Result contiguous(DType dtype, std::initializer_list<int64_t> dims) {
    return contiguous(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
};

// What an op gives, in its order.
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
  bool in_place = false;  // a result given by the caller may be the first argument itself
};

// All of them; an op's place in it is fixed while the library is loaded.
std::span<const Op> op_table();

enum class Kind { tensor, optional_tensor, number, integer, flag };
struct Argument {
  Kind kind;
  std::string name;
};
// The signature taken apart. The last arguments may be left out where they have a default in Python only.
struct Signature {
  std::vector<Argument> arguments;
  int results = 0;
};
Signature parse_signature(const Op& op);

// Runs the op: `out` are its results, of the shapes that `results` told; those that are absent may be undefined. Checks what no op checks itself: one device
// for all tensors, results in places of their own.
void run_op(const Op& op, const Signature& signature, Inputs in, std::span<const Tensor> out,
            Context& context);
// Throws unless a result that the caller gives is as the op would make it (strides are free).
void expect_result(const Op& op, const Tensor& given, const Result& expected, const Tensor& first);

}  // namespace tachy::python
