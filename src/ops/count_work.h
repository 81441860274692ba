// What a call would do, told in a measure run. Each function returns whether that is all that can be done: on a GPU that is
// not here (cuda/absent_gpu.h) nothing is picked, and the op returns. On others the multiply-adds go to Hooks::flops
// as well.
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

// It reads and writes these once each and multiplies little. (Two terms of one tensor: read, and written in place.)
inline bool count_pass(const char* op, DType numbers, std::initializer_list<Tensor> tensors,
                       const Stream& stream) {
  if (!stream.measuring()) return false;
  return count_work({.op = op, .numbers = numbers, .bytes = bytes_of(tensors)}, stream);
}

// [m, k] · [k, n].
inline bool count_product(const char* op, DType numbers, int64_t m, int64_t n, int64_t k,
                          std::initializer_list<Tensor> tensors, const Stream& stream) {
  if (!stream.measuring()) return false;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return count_work(
      {.op = op, .kind = WorkKind::product, .numbers = numbers, .flops = flops, .bytes = bytes_of(tensors)},
      stream);
}

// multiply_adds: results times the terms of each.
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
