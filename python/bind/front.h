// What eager calls with tensors of torch go through: one function an op, in C. It looks whether the call is a plain one
// (tensors that are nothing but values in memory, nobody who watches or changes what is called) and computes it at once,
// with results that torch's own `empty_like` makes. This costs half of a call of an op through torch's dispatcher, which all other calls take.
#pragma once

#include <nanobind/nanobind.h>

namespace tachy::python {

// Adds to the module what tachyscope/_torch.py calls: `_use_torch` and `_torch_front`.
void add_front(nanobind::module_& m);

}  // namespace tachy::python
