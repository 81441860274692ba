#include "runtime/spread.h"

#include <vector>

#include "ops/elementwise/elementwise.h"

namespace tachy::runtime {
namespace {

// Allocates a tensor for the tokens of each rank.
std::vector<Tensor> room_of_each(const Comm& comm, const Spread& spread, const Tensor& own, Arena& arena) {
  std::vector<Tensor> out;
  for (int rank = 0; rank < comm.size(); ++rank)
    out.push_back(arena.tensor(own.dtype, {own.dim(0), spread.tokens_of(rank, comm.size()), own.dim(2)}));
  return out;
}

void join(const Spread& spread, std::span<const Tensor> parts, const Tensor& whole, Stream& stream) {
  const auto ranks = static_cast<int64_t>(parts.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Tensor& part = parts[static_cast<size_t>(rank)];
    ops::copy({.x = part.view({part.dim(0), spread.frames, -1, part.dim(2)}),
               .y = spread.of_places(whole, spread.places_of(rank, ranks))},
              stream);
  }
}

}  // namespace

Tensor Spread::of_places(const Tensor& whole, const Share& some) const {
  return whole.view({whole.dim(0), frames, places(), whole.dim(2)}).slice(2, some.first, some.end);
}

Tensor own_tokens(const Comm* comm, const Spread& spread, const Tensor& whole, Stream& stream) {
  if (!comm || comm->size() == 1) return whole;
  const Share places = spread.places_of(comm->rank(), comm->size());
  const int64_t batch = whole.dim(0), n = whole.dim(2), frames = spread.frames;
  if (batch * frames == 1) return whole.select(0, 0).slice(0, places.first, places.end).view({1, -1, n});
  const Tensor own = stream.arena->tensor(whole.dtype, {batch, frames * places.count(), n});
  ops::copy({.x = spread.of_places(whole, places), .y = own.view({batch, frames, places.count(), n})},
            stream);
  return own;
}

Tensor tokens_on_first(Comm& comm, const Spread& spread, const Tensor& own, Stream& stream) {
  Tensor whole;
  std::vector<Tensor> parts;
  if (comm.rank() == 0) {
    whole = stream.arena->tensor(own.dtype, {own.dim(0), spread.tokens, own.dim(2)});
    parts = room_of_each(comm, spread, own, *stream.arena);
  }
  comm.gather(own, parts, stream);
  join(spread, parts, whole, stream);
  return whole;
}

Tensor tokens_on_all(Comm& comm, const Spread& spread, const Tensor& own, Stream& stream) {
  const Tensor whole = stream.arena->tensor(own.dtype, {own.dim(0), spread.tokens, own.dim(2)});
  const ArenaScope scope(*stream.arena);
  const std::vector<Tensor> parts = room_of_each(comm, spread, own, *stream.arena),
                            sent(static_cast<size_t>(comm.size()), own);
  comm.all_to_all(sent, parts, stream);
  join(spread, parts, whole, stream);
  return whole;
}

}  // namespace tachy::runtime
