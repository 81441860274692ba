// Entries of upsample_conv2d's table.
#pragma once

#include "ops/impl_table.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy::ops::upsample_conv2d_impl {

std::optional<std::string> why_not_onednn(const UpsampleConv2dArgs& args, const Stream& stream);
void run_onednn(const UpsampleConv2dArgs& args, Stream& stream);
void run_ref(const UpsampleConv2dArgs& args, Stream& stream);

}  // namespace tachy::ops::upsample_conv2d_impl
