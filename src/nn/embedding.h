// Reads rows of a table of the checkpoint, as float32. A table that can be read as it is stays in the file. A
// table that must be decoded (blocks of GGUF, 8-bit values with scales) is never decoded whole: umT5-XXL's
// would take 4 GB, and a prompt needs at most a few hundred rows of it.
#pragma once

#include <memory>

#include "tensor/stream.h"
#include "weights/scope.h"

namespace tachy::nn {

class Embedding {
 public:
  // `scope` is where `weight` [count, width] lies.
  Embedding(const Scope& scope, int64_t count, int64_t width);

  // ids [M] i64 → y [M, width] f32, all on the host. An id outside the table gives an
  // `invalid_argument` that names it.
  void operator()(const Tensor& ids, const Tensor& y, Stream& host) const;

 private:
  int64_t count_;
  std::shared_ptr<const DerivedTensor> derived_;  // null if the table lies in the file
  Tensor table_;                                  // undefined if it is derived
};

}  // namespace tachy::nn
