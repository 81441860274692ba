// The implementations of patchify and unpatchify, for their tables and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/patchify/patchify.h"

namespace tachy::ops {

void patchify_ref(const PatchifyArgs& args, Stream& stream);
void unpatchify_ref(const UnpatchifyArgs& args, Stream& stream);
std::span<const Impl<PatchifyArgs>> patchify_table();
std::span<const Impl<UnpatchifyArgs>> unpatchify_table();

}  // namespace tachy::ops
