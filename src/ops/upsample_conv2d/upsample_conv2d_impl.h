// Entries of upsample_conv2d's table.
#pragma once

#include "ops/impl_table.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy::ops::upsample_conv2d_impl {

void run_ref(const UpsampleConv2dArgs& args, Stream& stream);

}  // namespace tachy::ops::upsample_conv2d_impl
