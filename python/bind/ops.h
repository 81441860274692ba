// The ops of the table, each from the file of its name, and what their files share.
#pragma once

#include "bind/gradients.h"
#include "bind/op.h"

namespace tachy::python {

extern const Op kRmsNorm, kRmsNormBackward;

}  // namespace tachy::python
