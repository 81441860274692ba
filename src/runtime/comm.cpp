#include "runtime/comm.h"

namespace tachy::runtime {
namespace {

void expect_contiguous(const char* call, const Tensor& t) {
  check(!t.defined() || t.contiguous(), ErrorCode::internal, "{}: expected a contiguous tensor, got {}", call,
        shape_string(t));
}

}  // namespace

void Comm::all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) {
  const auto ranks = static_cast<size_t>(size());
  check(from.size() == ranks && to.size() == ranks, ErrorCode::internal,
        "all_to_all: {} tensors to send and {} to receive, for {} ranks", from.size(), to.size(), ranks);
  for (const Tensor& t : from) expect_contiguous("all_to_all", t);
  for (const Tensor& t : to) expect_contiguous("all_to_all", t);
  if (!stream.measuring()) exchange(from, to, stream);
}

void Comm::gather(const Tensor& part, std::span<const Tensor> to, Stream& stream) {
  expect_contiguous("gather", part);
  const auto wanted = rank() == 0 ? static_cast<size_t>(size()) : 0;
  check(to.size() == wanted, ErrorCode::internal, "gather: room for {} tensors on rank {} of {}", to.size(),
        rank(), size());
  for (const Tensor& t : to) expect_contiguous("gather", t);
  if (!stream.measuring()) collect(part, to, stream);
}

}  // namespace tachy::runtime
