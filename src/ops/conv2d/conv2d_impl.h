// Entries of conv2d's table.
#pragma once

#include "ops/conv2d/conv2d.h"
#include "ops/impl_table.h"

namespace tachy::ops::conv2d_impl {

void run_ref(const Conv2dArgs& args, Stream& stream);

}  // namespace tachy::ops::conv2d_impl
