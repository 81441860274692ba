#include "bind/rows.h"

#include <algorithm>

#include "bind/convert.h"

namespace tachy::python {
namespace {

constexpr int64_t kSlabValues = int64_t{1} << 18;

// Visits rows [begin, end) of a tensor seen as [M, C] that have no common stride. Single rows would do, but
// longer pieces let convert copy more at once: this makes a view of rank 2 for each run of rows along the
// last of the leading dims.
template <class Body>
void for_row_runs(const Tensor& t, int64_t begin, int64_t end, Body&& body) {
  const int inner = t.rank - 2;
  const int64_t length = inner >= 0 ? t.dims[inner] : 1;
  while (begin < end) {
    const int64_t within = begin % length, count = std::min(end - begin, length - within);
    int64_t offset = inner >= 0 ? within * t.strides[inner] : 0, rest = begin / length;
    for (int i = inner - 1; i >= 0; --i) {
      offset += rest % t.dims[i] * t.strides[i];
      rest /= t.dims[i];
    }
    Tensor run = t;
    run.rank = 2;
    run.data = static_cast<char*>(t.data) + offset * dtype_size(t.dtype);
    run.dims[0] = count, run.dims[1] = t.dims[t.rank - 1];
    run.strides[0] = inner >= 0 ? t.strides[inner] : 0, run.strides[1] = t.strides[t.rank - 1];
    body(run, count);
    begin += count;
  }
}

}  // namespace

RowPass::RowPass(Context& context, DType dtype, Layout layout)
    : context_(context), work_(work_dtype(dtype, context)), layout_(layout) {}

size_t RowPass::add(const Tensor& t, bool read, bool write) {
  Operand operand{t, {}, read, write};
  if (t.dtype == work_ || context_.on_gpu()) operand.rows = as_rows(t);
  if (layout_ == Layout::contiguous && !t.contiguous()) operand.rows = Tensor();
  direct_ = direct_ && operand.rows.defined();
  check(count_ < kMost, ErrorCode::internal, "more than {} operands of rows", kMost);
  operands_[count_] = operand;
  return count_++;
}

void RowPass::run(Body body) {
  Tensor places[kMost];
  const std::span<Tensor> seen(places, count_);
  if (direct_) {
    for (size_t i = 0; i < count_; ++i) seen[i] = operands_[i].rows;
    return body(seen, 0);
  }
  if (!context_.on_gpu()) return run_slabs(body);
  for (size_t i = 0; i < count_; ++i) {
    const Operand& o = operands_[i];
    const Tensor whole = o.rows.defined() ? Tensor() : context_.scratch(o.tensor.dtype, o.tensor.shape());
    if (whole.defined() && o.read) convert(o.tensor, whole, context_);
    seen[i] = whole.defined() ? as_rows(whole) : o.rows;
  }
  body(seen, 0);
  for (size_t i = 0; i < seen.size(); ++i) {
    const Operand& o = operands_[i];
    if (!o.write || o.rows.defined()) continue;
    Tensor whole = o.tensor;  // the scratch, in the tensor's shape
    convert(Tensor(seen[i].data, whole.dtype, whole.shape(), whole.device), o.tensor, context_);
  }
}

void RowPass::run_slabs(Body body) {
  const Tensor& first = operands_[0].tensor;
  const int64_t columns = first.dims[first.rank - 1], rows = first.numel() / columns;
  const int64_t step = std::min(rows, std::max<int64_t>(1, kSlabValues / columns));
  Tensor slabs[kMost], places[kMost];
  for (size_t i = 0; i < count_; ++i)
    if (!operands_[i].rows.defined()) slabs[i] = context_.scratch(work_, {step, columns});
  const std::span<Tensor> seen(places, count_);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t end = std::min(rows, begin + step);
    const auto move = [&](size_t i, bool in) {
      int64_t at = 0;
      for_row_runs(operands_[i].tensor, begin, end, [&](const Tensor& run, int64_t count) {
        const Tensor part = seen[i].slice(0, at, at + count);
        in ? convert(run, part, context_) : convert(part, run, context_);
        at += count;
      });
    };
    for (size_t i = 0; i < count_; ++i) {
      const Operand& o = operands_[i];
      seen[i] = o.rows.defined() ? o.rows.slice(0, begin, end) : slabs[i].slice(0, 0, end - begin);
      if (o.read && !o.rows.defined()) move(i, true);
    }
    body(seen, begin);
    for (size_t i = 0; i < count_; ++i)
      if (operands_[i].write && !operands_[i].rows.defined()) move(i, false);
  }
}

void expect_value(const char* op, const char* name, const Tensor& t) {
  const bool right = t.dtype == DType::f32 || t.dtype == DType::f16 || t.dtype == DType::bf16 ||
                     (t.dtype == DType::f64 && t.device.type == DeviceType::cpu);
  require(right, "{}: expected {} f32, f16 or bf16 (on the CPU also f64), got {}", op, name,
          dtype_name(t.dtype));
}

void expect_beside(const char* op, const char* name, const Tensor& t, const char* first, const Tensor& x) {
  require(same_shape(t, x), "{}: expected {} {} as {}, got {}", op, name, shown(x), first, shown(t));
  require(t.dtype == x.dtype, "{}: expected {} {} as {}, got {}", op, name, dtype_name(x.dtype), first,
          dtype_name(t.dtype));
}

void expect_vector(const char* op, const char* name, const Tensor& t, int64_t channels, const Tensor& x) {
  if (!t.defined()) return;
  expect_value(op, name, t);
  require(t.rank == 1 && t.dims[0] == channels, "{}: expected {} [{}], got {}", op, name, channels, shown(t));
  require((x.dtype == DType::f64) == (t.dtype == DType::f64), "{}: expected {} {} beside {}, got {}", op,
          name, x.dtype == DType::f64 ? "f64" : "f32, f16 or bf16", dtype_name(x.dtype), dtype_name(t.dtype));
}

}  // namespace tachy::python
