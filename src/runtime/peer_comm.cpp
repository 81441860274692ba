#include "runtime/peer_comm.h"

namespace tachy::runtime {
namespace {

void expect_equal(int64_t given, int64_t wanted) {
  check(given == wanted, ErrorCode::internal, "ranks: {} bytes are sent where {} are expected", given,
        wanted);
}

int64_t bytes_of(const Tensor& t) { return t.defined() ? t.bytes() : 0; }

// Adds a contiguous tensor, as one row.
void add_whole(const Tensor& from, const Tensor& to, bool own, std::vector<cuda::PeerRows>& rows) {
  expect_equal(bytes_of(from), bytes_of(to));
  if (bytes_of(from) == 0 || from.data == to.data) return;
  const auto bytes = static_cast<size_t>(from.bytes());
  rows.push_back({.to = to.data,
                  .from = from.data,
                  .width = bytes,
                  .rows = 1,
                  .to_pitch = bytes,
                  .from_pitch = bytes,
                  .own = own});
}

// Adds a view [B, tokens, heads, D]: a row for each token, in one piece if the pitch is the same across B.
void add_view(const Tensor& from, const Tensor& to, bool own, std::vector<cuda::PeerRows>& rows) {
  expect_equal(bytes_of(from), bytes_of(to));
  if (bytes_of(from) == 0) return;
  check(same_shape(from, to), ErrorCode::internal, "ranks: {} is sent where {} is expected",
        shape_string(from), shape_string(to));
  const int64_t tokens = from.dim(1), value = dtype_size(from.dtype);
  const auto even = [&](const Tensor& t) { return t.dim(0) == 1 || t.stride(0) == tokens * t.stride(1); };
  const bool together = even(from) && even(to);
  for (int64_t b = 0; b < (together ? 1 : from.dim(0)); ++b)
    rows.push_back({.to = to.select(0, b).data,
                    .from = from.select(0, b).data,
                    .width = static_cast<size_t>(from.dim(2) * from.dim(3) * value),
                    .rows = static_cast<size_t>(together ? tokens * from.dim(0) : tokens),
                    .to_pitch = static_cast<size_t>(to.stride(1) * value),
                    .from_pitch = static_cast<size_t>(from.stride(1) * value),
                    .own = own});
}

}  // namespace

template <class Rows>
void PeerComm::push(std::span<const Tensor> to, Stream& stream, bool free, const Rows& rows) {
  check(stream.gpu == &gpu_, ErrorCode::internal, "ranks: rank {} exchanges on another rank's queue", rank_);
  const auto tell = [&] { careful_ ? gpu_.synchronize() : group_.tell(rank_); };
  const auto await_others = [&] {
    if (!careful_) group_.await_others(rank_);
  };
  place_.show(rank_, to);
  if (!free) tell();
  place_.meet();
  if (!free) await_others();
  group_.push(rank_, rows());
  tell();
  place_.meet();  // after this, the rank may show other tensors
  await_others();
}

void PeerComm::exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) {
  push(to, stream, false, [&] {
    std::vector<cuda::PeerRows> rows;
    for (int p = 0; p < size(); ++p)
      add_whole(from[static_cast<size_t>(p)], place_.shown(p)[static_cast<size_t>(rank_)], p == rank_, rows);
    return rows;
  });
}

std::vector<cuda::PeerRows> PeerComm::rows_of(std::span<const Tensor> from) const {
  std::vector<cuda::PeerRows> rows;
  const auto ranks = static_cast<size_t>(size()), mine = static_cast<size_t>(rank_);
  for (size_t i = 0; i < from.size(); i += ranks)
    for (size_t p = 0; p < ranks; ++p)
      add_view(from[i + p], place_.shown(static_cast<int>(p))[i + mine], p == mine, rows);
  return rows;
}

void PeerComm::exchange_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                              bool free) {
  push(to, stream, free, [&] { return rows_of(from); });
}

// The copy engines carry the parts for others, since a kernel would find no multiprocessor free. This rank's queue
// copies its own part meanwhile, or the engines do that, too, once the others have theirs.
int PeerComm::begin_exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                             bool patient) {
  if (careful_) {
    exchange_views(from, to, stream, false);
    return kHere;
  }
  place_.show(rank_, to);
  group_.step_aside(rank_);
  group_.tell(rank_);
  place_.meet();
  const std::vector<cuda::PeerRows> all = rows_of(from);
  std::vector<cuda::PeerRows> own, others;
  for (const cuda::PeerRows& r : all) (r.own ? own : others).push_back(r);
  group_.await_others(rank_);
  group_.push(rank_, others, cuda::PeerGroup::Way::engines);
  group_.tell(rank_);
  place_.meet();
  group_.await_others(rank_);
  if (patient) group_.push(rank_, own, cuda::PeerGroup::Way::all_engines);
  const int number = group_.step_back(rank_);
  if (!patient) group_.push(rank_, own);
  return number;
}

void PeerComm::await(int exchange, Stream&) {
  if (exchange != kHere) group_.await(rank_, exchange);
}

void PeerComm::wait_for_all(Stream&) {
  if (careful_)
    gpu_.synchronize();
  else
    group_.tell(rank_);
  place_.meet();
  if (!careful_) group_.await_others(rank_);
}

void PeerComm::collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) {
  push(to, stream, false, [&] {
    std::vector<cuda::PeerRows> rows;
    add_whole(part, place_.shown(0)[static_cast<size_t>(rank_)], rank_ == 0, rows);
    return rows;
  });
}

}  // namespace tachy::runtime
