// Ops on rows: tensors [..., C] of one shape, of which the ops in src/ops take [M, C] with one stride between rows, on
// the CPU f32 only.
//
// Where all operands allow it, the op runs on them as they lie. On the CPU the others pass through scratch a slab of
// rows at a time (about 1 MiB, which stays in the caches between its three passes), so no operand is ever copied as a
// whole. On a GPU an operand whose leading dims have no common stride is copied, and 16-bit ones are what the kernels
// take.
#pragma once

#include "base/function_ref.h"
#include "bind/context.h"
#include "bind/op.h"

namespace tachy::python {

class RowPass {
 public:
  enum class Layout { rows, contiguous };  // what the op takes: any stride between rows, or none
  RowPass(Context& context, DType dtype,
          Layout layout = Layout::rows);  // the dtype of the op's first operand

  // The operands in any order; the body finds them at the index that is returned.
  size_t read(const Tensor& t) { return add(t, true, false); }
  size_t write(const Tensor& t) { return add(t, false, true); }

  // body(operands, first row): each operand [rows, C] in the dtype that is computed in.
  using Body = FunctionRef<void(std::span<const Tensor> operands, int64_t first_row)>;
  void run(Body body);

  // That dtype, which parameters are brought to as well (convert.h).
  DType dtype() const { return work_; }

 private:
  struct Operand {
    Tensor tensor;  // as it came
    Tensor rows;    // as rows where it may be used as it lies
    bool read = false, write = false;
  };
  size_t add(const Tensor& t, bool read, bool write);
  void run_slabs(Body body);

  Context& context_;
  DType work_;
  Layout layout_;
  static constexpr size_t kMost = 4;  // no memory is asked for in a small call
  Operand operands_[kMost];
  size_t count_ = 0;
  bool direct_ = true;
};

// What Python code gives, checked with words that name it. Each throws "op: expected …, got …".
void expect_value(const char* op, const char* name, const Tensor& t);  // a float tensor with a dim at least
void expect_beside(const char* op, const char* name, const Tensor& t, const char* first, const Tensor& x);
void expect_vector(const char* op, const char* name, const Tensor& t, int64_t channels, const Tensor& x);

}  // namespace tachy::python
