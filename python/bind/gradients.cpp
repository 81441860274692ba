#include "bind/gradients.h"

#include "bind/convert.h"

namespace tachy::python {

Result gradient_result(const Tensor& parameter) {
  if (!parameter.defined()) {
    Result none = Result::contiguous(DType::f32, {0});
    none.absent = true;
    return none;
  }
  return Result::contiguous(parameter.dtype, parameter.shape());
}

GradientPass::GradientPass(Context& context, DType dtype)
    : context_(context), work_(work_dtype(dtype, context)) {}

Tensor GradientPass::rows(const Tensor& t) {
  if (!t.defined()) return t;
  const Tensor here = t.dtype == work_ ? as_rows(t) : Tensor();
  return here.defined() ? here : as_rows(contiguous_as(t, work_, context_));
}

Tensor GradientPass::whole(const Tensor& t) { return t.defined() ? contiguous_as(t, work_, context_) : t; }

Tensor GradientPass::pending(const Tensor& to, DType dtype) {
  const Tensor from = context_.scratch(dtype, to.shape());
  pending_.push_back({from, to});
  return from;
}

Tensor GradientPass::result_rows(const Tensor& to) {
  const Tensor here = to.dtype == work_ ? as_rows(to) : Tensor();
  return here.defined() ? here : as_rows(pending(to, work_));
}

Tensor GradientPass::result(const Tensor& to) {
  return to.dtype == work_ && to.contiguous() ? to : pending(to, work_);
}

Tensor GradientPass::parameter_result(const Tensor& parameter, const Tensor& to) {
  if (!parameter.defined()) return {};
  const DType dtype = parameter_dtype(work_);
  return to.dtype == dtype && to.contiguous() ? to : pending(to, dtype);
}

void GradientPass::finish() {
  for (const Pending& p : pending_) convert(p.from, p.to, context_);
}

}  // namespace tachy::python
