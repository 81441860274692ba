#include "runtime/bands.h"

#include <vector>

#include "ops/elementwise/elementwise.h"

namespace tachy::runtime {
namespace {

// Codes are moved four at a time, as numbers that nobody computes with.
Tensor movable(const Tensor& x) {
  if (dtype_size(x.dtype) > 1) return x;
  return Tensor(x.data, DType::f32, {x.dim(0), x.dim(1), x.dim(2), x.dim(3) / 4}, x.device);
}

void copy(const Tensor& from, const Tensor& to, Stream& stream) { ops::copy({.x = from, .y = to}, stream); }

}  // namespace

Bands::Bands(int rank, int ranks, int64_t units, Comm* comm)
    : rank_(rank), ranks_(ranks), units_(units), comm_(comm) {
  check(ranks <= units, ErrorCode::internal, "bands: {} ranks for {} rows", ranks, units);
}

Share Bands::rows_of(int64_t all, int rank) const {
  check(ranks_ == 1 || all % units_ == 0, ErrorCode::internal, "bands: {} rows in bands of {}", all, units_);
  if (ranks_ == 1) return {0, all};
  const Share units = share_of(units_, rank, ranks_);
  const int64_t scale = all / units_;
  return {units.first * scale, units.end * scale};
}

Tensor Bands::band_of(const Tensor& whole, int rank) const {
  const Share rows = rows_of(whole.dim(1), rank);
  return whole.slice(1, rows.first, rows.end);
}

// A row of one frame is sent where it lies. Those of several frames are not neighbours in memory, and are
// sent in one piece nevertheless.
void Bands::exchange(const Tensor& given, Stream& stream) const {
  if (!divided()) return;
  const Tensor x = movable(given);
  const auto bytes = static_cast<size_t>(x.dim(0) * x.dim(2) * x.dim(3) * dtype_size(x.dtype));
  if (mail_ && bytes <= row_bytes_ && x.stride(3) == 1 && x.stride(2) == x.dim(3))
    return exchange_views(x, stream);
  const int64_t height = x.dim(1);
  const ArenaScope scope(*stream.arena);
  const auto row = [&](int64_t index) { return x.slice(1, index, index + 1); };
  const auto message = [&](int64_t index) {
    return x.dim(0) == 1 ? row(index) : stream.arena->tensor(x.dtype, {x.dim(0), 1, x.dim(2), x.dim(3)});
  };
  std::vector<Tensor> from(static_cast<size_t>(ranks_)), to(from.size());
  struct Side {
    int64_t there, last_own, other;  // the neighbour's rank, the row for it, and the one that it has
  };
  std::vector<Side> sides;
  if (above() > 0) sides.push_back({rank_ - 1, 1, 0});
  if (below() > 0) sides.push_back({rank_ + 1, height - 2, height - 1});
  for (const Side& s : sides) {
    const Tensor sent = from[static_cast<size_t>(s.there)] = message(s.last_own);
    to[static_cast<size_t>(s.there)] = message(s.other);
    if (x.dim(0) > 1) copy(row(s.last_own), sent, stream);
  }
  comm_->all_to_all(from, to, stream);
  for (const Side& s : sides)
    if (x.dim(0) > 1) copy(to[static_cast<size_t>(s.there)], row(s.other), stream);
}

// Rows of all frames are pushed from where they lie into the neighbours' mail, and copied from there: so nobody writes
// into a tensor that its rank may still be computing. The place of the mail was read before the exchange before this
// one, but for the first two.
void Bands::exchange_views(const Tensor& x, Stream& stream) const {
  const int64_t turn = exchanges_++ % 2, height = x.dim(1);
  const auto rows = [&](int64_t index) {  // of all frames, as tokens whose heads are the places of a row
    const Tensor of_frames = x.slice(1, index, index + 1);
    Tensor out(of_frames.data, x.dtype, {1, x.dim(0), x.dim(2), x.dim(3)}, x.device);
    out.strides[0] = x.dim(0) * x.stride(0), out.strides[1] = x.stride(0);
    return out;
  };
  const auto mail = [&](int64_t side) {
    return Tensor(mail_ + static_cast<size_t>(2 * turn + side) * row_bytes_, x.dtype,
                  {1, x.dim(0), x.dim(2), x.dim(3)}, x.device);
  };
  std::vector<Tensor> from(static_cast<size_t>(ranks_)), to(from.size());
  const auto swap = [&](int64_t there, int64_t last_own, int64_t side) {
    from[static_cast<size_t>(there)] = rows(last_own), to[static_cast<size_t>(there)] = mail(side);
  };
  if (above() > 0) swap(rank_ - 1, 1, 0);
  if (below() > 0) swap(rank_ + 1, height - 2, 1);
  comm_->all_to_all_views(from, to, stream, exchanges_ > 2);
  if (above() > 0) copy(mail(0), rows(0), stream);
  if (below() > 0) copy(mail(1), rows(height - 1), stream);
}

void Bands::hand_out(const Tensor& whole, const Tensor& x, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  std::vector<Tensor> from(static_cast<size_t>(ranks_)), to(from.size());
  if (!first()) {
    to[0] = x;
    return comm_->all_to_all(from, to, stream);
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    const Share own = rows_of(whole.dim(1), rank);
    const Tensor rows =
        whole.slice(1, std::max<int64_t>(0, own.first - 1), std::min(whole.dim(1), own.end + 1));
    if (rank == 0) {
      copy(rows, x, stream);
      continue;
    }
    const Tensor sent = from[static_cast<size_t>(rank)] = stream.arena->tensor(x.dtype, rows.shape());
    copy(rows, sent, stream);
  }
  comm_->all_to_all(from, to, stream);
}

// Returns where the ranks' bands are received: in `whole`, if it is one frame.
std::vector<Tensor> Bands::places_of(const Tensor& band, const Tensor& whole, Stream& stream) const {
  std::vector<Tensor> out;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Tensor part = band_of(whole, rank);
    out.push_back(rank == rank_       ? band
                  : part.contiguous() ? part
                                      : stream.arena->tensor(band.dtype, part.shape()));
  }
  return out;
}

void Bands::put(std::span<const Tensor> places, const Tensor& whole, Stream& stream) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    const Tensor part = band_of(whole, rank);
    if (part.data != places[static_cast<size_t>(rank)].data)
      copy(places[static_cast<size_t>(rank)], part, stream);
  }
}

void Bands::collect(const Tensor& band, const Tensor& whole, Stream& stream) const {
  if (!first()) return comm_->gather(band, {}, stream);
  const ArenaScope scope(*stream.arena);
  const std::vector<Tensor> places = places_of(band, whole, stream);
  comm_->gather(band, places, stream);
  put(places, whole, stream);
}

void Bands::share(const Tensor& band, const Tensor& whole, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const std::vector<Tensor> places = places_of(band, whole, stream);
  std::vector<Tensor> from(places.size(), band), to = places;
  from[static_cast<size_t>(rank_)] = to[static_cast<size_t>(rank_)] = Tensor();
  comm_->all_to_all(from, to, stream);
  put(places, whole, stream);
}

}  // namespace tachy::runtime
