// The path of eager calls with tensors of torch: one function for each op, in C. It checks whether the call
// is a plain one (all tensors are nothing but values in memory, and nothing watches or changes the call). If
// it is, the function computes at once, with results that torch's own `empty_like` makes. This takes half the
// time of a call through torch's dispatcher, which all other calls take.
#pragma once

#include <nanobind/nanobind.h>

namespace tachy::python {

// Adds the functions that tachyscope/_torch.py calls to the module: `_use_torch` and `_torch_front`.
void add_front(nanobind::module_& m);

}  // namespace tachy::python
