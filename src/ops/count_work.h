// Counts the work of a call in a measure run. Each function returns whether the op can do nothing else: for a
// GPU that is not present (cuda/absent_gpu.h) no implementation is picked, and the op returns. For other
// devices the multiply-adds are also added to Hooks::flops.
#pragma once

#include <initializer_list>

#include "cuda/absent_gpu.h"
#include "tensor/stream.h"
#include "tensor/work_tally.h"

namespace tachy::ops {

inline bool count_work(const OpWork& work, const Stream& stream) {
  if (!stream.measuring()) return false;
  if (work.flops > 0) stream.count_flops(work.flops);
  if (WorkTally* tally = WorkTally::current()) tally->note(work);
  return cuda::is_absent(stream.gpu);
}

// Counts an op that reads and writes these tensors once each and multiplies little. (If it works in place,
// the tensor is given twice: once for reading, once for writing.)
inline bool count_pass(const char* op, DType numbers, std::initializer_list<Tensor> tensors,
                       const Stream& stream) {
  if (!stream.measuring()) return false;
  return count_work({.op = op, .numbers = numbers, .bytes = bytes_of(tensors)}, stream);
}

// Counts [m, k] · [k, n].
inline bool count_product(const char* op, DType numbers, int64_t m, int64_t n, int64_t k,
                          std::initializer_list<Tensor> tensors, const Stream& stream) {
  if (!stream.measuring()) return false;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return count_work(
      {.op = op, .kind = WorkKind::product, .numbers = numbers, .flops = flops, .bytes = bytes_of(tensors)},
      stream);
}

// multiply_adds is the number of results times the number of terms of each.
inline bool count_convolution(const char* op, DType numbers, int64_t multiply_adds,
                              std::initializer_list<Tensor> tensors, const Stream& stream) {
  if (!stream.measuring()) return false;
  return count_work({.op = op,
                     .kind = WorkKind::convolution,
                     .numbers = numbers,
                     .flops = 2.0 * static_cast<double>(multiply_adds),
                     .bytes = bytes_of(tensors)},
                    stream);
}

}  // namespace tachy::ops
