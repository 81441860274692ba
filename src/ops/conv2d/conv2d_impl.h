// Entries of conv2d's table.
#pragma once

#include "ops/conv2d/conv2d.h"
#include "ops/impl_table.h"

namespace tachy::ops::conv2d_impl {

std::optional<std::string> why_not_onednn(const Conv2dArgs& args, const Stream& stream);
void run_onednn(const Conv2dArgs& args, Stream& stream);
void run_ref(const Conv2dArgs& args, Stream& stream);

}  // namespace tachy::ops::conv2d_impl
