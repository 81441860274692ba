#include "runtime/comm.h"

#include "tensor/transfer.h"

namespace tachy::runtime {
namespace {

void expect_contiguous(const char* call, const Tensor& t) {
  check(t.contiguous(), ErrorCode::internal, "{}: expected a contiguous tensor, got {}", call,
        shape_string(t));
}

void copy_unless_same(const Tensor& from, const Tensor& to, const Stream& stream) {
  if (from.data != to.data) copy_bytes(from, to, stream);
}

class LocalComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

 private:
  void exchange(const Tensor&, const Tensor&, Stream&) override {}
  void gather(const Tensor&, const Tensor&, Stream&) override {}
  void sum(const Tensor&, Stream&) override {}
  void send(const Tensor&, int, Stream&) override {}
};

}  // namespace

void Comm::all_to_all(const Tensor& from, const Tensor& to, Stream& stream) {
  expect_contiguous("all_to_all", from), expect_contiguous("all_to_all", to);
  check(same_shape(from, to) && from.dtype == to.dtype && from.dim(0) == size(), ErrorCode::internal,
        "all_to_all: expected two tensors [{}, ...] alike, got {} and {}", size(), shape_string(from),
        shape_string(to));
  if (stream.measuring()) return;
  if (size() == 1) return copy_unless_same(from, to, stream);
  check(from.data != to.data, ErrorCode::internal, "all_to_all: it is not made in place");
  exchange(from, to, stream);
}

void Comm::all_gather(const Tensor& part, const Tensor& whole, Stream& stream) {
  expect_contiguous("all_gather", part), expect_contiguous("all_gather", whole);
  check(whole.dim(0) == size() && same_shape(whole.select(0, 0), part) && whole.dtype == part.dtype,
        ErrorCode::internal, "all_gather: expected {} parts {}, got {}", size(), shape_string(part),
        shape_string(whole));
  if (stream.measuring()) return;
  if (size() == 1) return copy_unless_same(part, whole, stream);
  gather(part, whole, stream);
}

void Comm::all_reduce(const Tensor& x, Stream& stream) {
  expect_contiguous("all_reduce", x);
  expect_dtype("all_reduce", "x", x, DType::f32);
  if (stream.measuring() || size() == 1) return;
  sum(x, stream);
}

void Comm::broadcast(const Tensor& x, int root, Stream& stream) {
  expect_contiguous("broadcast", x);
  check(root >= 0 && root < size(), ErrorCode::internal, "broadcast: rank {} of {}", root, size());
  if (stream.measuring() || size() == 1) return;
  send(x, root, stream);
}

Comm& local_comm() {
  static LocalComm comm;
  return comm;
}

}  // namespace tachy::runtime
