// The implementations of the shortcuts, for their table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/shortcut/shortcut.h"

namespace tachy::ops {

void shortcut_ref(const ShortcutArgs& args, Stream& stream);  // plain loops, sums in double
// The definition with sums in float; its error sets the tolerance.
void shortcut_working(const ShortcutArgs& args, Stream& stream);
void shortcut_cuda(const ShortcutArgs& args, Stream& stream);
std::span<const Impl<ShortcutArgs>> shortcut_table();

}  // namespace tachy::ops
