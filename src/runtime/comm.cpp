#include "runtime/comm.h"

#include "tensor/work_tally.h"

namespace tachy::runtime {
namespace {

void expect_contiguous(const char* call, const Tensor& t) {
  check(!t.defined() || t.contiguous(), ErrorCode::internal, "{}: expected a contiguous tensor, got {}", call,
        shape_string(t));
}

// Counts what a rank sends to the others, as one transfer. It waits for them even if that is nothing.
void count_exchange(std::span<const Tensor> from, size_t ranks, size_t own) {
  WorkTally* const tally = WorkTally::current();
  if (!tally) return;
  double bytes = 0;
  for (size_t i = 0; i < from.size(); ++i)
    if (i % ranks != own) bytes += bytes_of({from[i]});
  const DType numbers = from.empty() ? DType::f32 : from[own].dtype;
  tally->note({.op = kExchange, .kind = WorkKind::transfer, .numbers = numbers, .bytes = bytes});
}

}  // namespace

void Comm::all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) {
  const auto ranks = static_cast<size_t>(size());
  check(from.size() == ranks && to.size() == ranks, ErrorCode::internal,
        "all_to_all: {} tensors to send and {} to receive, for {} ranks", from.size(), to.size(), ranks);
  for (const Tensor& t : from) expect_contiguous("all_to_all", t);
  for (const Tensor& t : to) expect_contiguous("all_to_all", t);
  if (stream.measuring()) return count_exchange(from, ranks, static_cast<size_t>(rank()));
  exchange(from, to, stream);
}

void Comm::check_views(std::span<const Tensor> from, std::span<const Tensor> to) const {
  const auto ranks = static_cast<size_t>(size());
  check(moves_views() && from.size() == to.size() && from.size() % ranks == 0, ErrorCode::internal,
        "all_to_all_views: {} views to send and {} to receive, for {} ranks", from.size(), to.size(), ranks);
  for (const std::span<const Tensor> all : {from, to})
    for (const Tensor& t : all)
      check(!t.defined() || (t.rank == 4 && t.stride(3) == 1 && t.stride(2) == t.dim(3)), ErrorCode::internal,
            "all_to_all_views: expected [B, tokens, heads, D] with a token's heads in one piece, got {}",
            shape_string(t));
}

void Comm::all_to_all_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                            bool free) {
  check_views(from, to);
  if (stream.measuring())
    return count_exchange(from, static_cast<size_t>(size()), static_cast<size_t>(rank()));
  exchange_views(from, to, stream, free);
}

int Comm::begin_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                      bool patient) {
  check_views(from, to);
  if (!stream.measuring()) return begin_exchange(from, to, stream, patient);
  count_exchange(from, static_cast<size_t>(size()), static_cast<size_t>(rank()));
  return 0;
}

void Comm::arrive(int exchange, Stream& stream) {
  if (!stream.measuring()) await(exchange, stream);
}

void Comm::line_up(Stream& stream) {
  if (stream.measuring() || !stream.hooks.profiler) return;
  const ProfileRange range(stream.hooks.profiler, "wait for ranks", ProfileKind::other);
  wait_for_all(stream);
}

void Comm::exchange_views(std::span<const Tensor>, std::span<const Tensor>, Stream&, bool) {
  fail(ErrorCode::internal, "all_to_all_views: these ranks exchange whole tensors only");
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
