// Runs ops on rows: tensors [..., C] of one shape. The ops in src/ops take them as [M, C] with one stride
// between rows, and on the CPU only in f32.
//
// If all operands allow it, the op uses them as they are. On the CPU other operands are copied to scratch in
// slabs of rows (about 1 MiB, which stays in the caches for its three passes), so no operand is ever copied
// as a whole. On a GPU an operand whose leading dims have no common stride is copied, and the kernels take
// 16-bit operands directly.
#pragma once

#include "base/function_ref.h"
#include "bind/context.h"
#include "bind/op.h"

namespace tachy::python {

class RowPass {
 public:
  // The layout that the op takes: rows with any stride between them, or contiguous tensors.
  enum class Layout { rows, contiguous };
  // `dtype` is that of the op's first operand.
  RowPass(Context& context, DType dtype, Layout layout = Layout::rows);

  // These add the operands in any order; the body finds each at the returned index.
  size_t read(const Tensor& t) { return add(t, true, false); }
  size_t write(const Tensor& t) { return add(t, false, true); }

  // body(operands, first row) gets each operand as [rows, C] in the dtype in which the op computes.
  using Body = FunctionRef<void(std::span<const Tensor> operands, int64_t first_row)>;
  void run(Body body);

  // Returns the dtype in which the op computes, to which parameters are converted as well (convert.h).
  DType dtype() const { return work_; }

 private:
  struct Operand {
    Tensor tensor;  // the operand as it was given
    Tensor rows;    // the operand as rows, if it can be used as it is
    bool read = false, write = false;
  };
  size_t add(const Tensor& t, bool read, bool write);
  void run_slabs(Body body);

  Context& context_;
  DType work_;
  Layout layout_;
  static constexpr size_t kMost = 4;  // so few that a small call allocates no memory
  Operand operands_[kMost];
  size_t count_ = 0;
  bool direct_ = true;
};

// These check what Python code gives, with texts that name it. Each throws "op: expected …, got …".
// expect_value expects a float tensor with at least one dim.
void expect_value(const char* op, const char* name, const Tensor& t);
void expect_beside(const char* op, const char* name, const Tensor& t, const char* first, const Tensor& x);
void expect_vector(const char* op, const char* name, const Tensor& t, int64_t channels, const Tensor& x);

}  // namespace tachy::python
