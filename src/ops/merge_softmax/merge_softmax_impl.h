// The implementations of merge_softmax, for its table and the op runner. A pass moves three times the bytes of
// x, a few thousandths of what the attention before it costs, so that the CPU runs plain loops. There is none
// for a GPU yet.
#pragma once

#include "ops/impl_table.h"
#include "ops/merge_softmax/merge_softmax.h"

namespace tachy::ops {

void merge_softmax_ref(const MergeSoftmaxArgs& args, Stream& stream);      // float64 inside
void merge_softmax_working(const MergeSoftmaxArgs& args, Stream& stream);  // float32, which a CPU runs
std::span<const Impl<MergeSoftmaxArgs>> merge_softmax_table();

}  // namespace tachy::ops
