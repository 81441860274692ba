// The arguments of the elementwise ops whose functions take them one by one.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace tachy::ops {

struct WidenArgs {
  Tensor x, y;
};
struct ToRgb8Args {
  Tensor x, y;
};
struct ClampArgs {
  Tensor x;
  float lo = 0, hi = 1;
};
struct AllFiniteArgs {
  Tensor x;
  bool* result = nullptr;
};
struct MarkNonfiniteArgs {
  Tensor x, flag;
};

}  // namespace tachy::ops
