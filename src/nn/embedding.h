// Reads rows of a table of the checkpoint as float32. A table of plain values stays in the file. A table that
// must be decoded (blocks of GGUF, 8-bit values with scales) is never decoded whole: umT5-XXL's would take 4
// GB, and a prompt needs at most a few hundred of its rows.
#pragma once

#include <memory>

#include "tensor/stream.h"
#include "weights/scope.h"

namespace tachy::nn {

class Embedding {
 public:
  // The tensor `weight` [count, width] is in `scope`.
  Embedding(const Scope& scope, int64_t count, int64_t width);

  // Looks up ids [M] i64 and writes y [M, width] f32, all on the host. An id outside the table throws
  // `invalid_argument` with the id.
  void operator()(const Tensor& ids, const Tensor& y, Stream& host) const;

 private:
  int64_t count_;
  std::shared_ptr<const DerivedTensor> derived_;  // null if the table is stored in the file as it is
  Tensor table_;                                  // undefined if it is derived
};

}  // namespace tachy::nn
