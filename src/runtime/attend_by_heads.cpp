#include "runtime/attend_by_heads.h"

#include <vector>

#include "ops/elementwise/elementwise.h"

namespace tachy::runtime {
namespace {

// Tells which parts of a sequence this rank and the others have.
class Division {
 public:
  Division(Comm& comm, int64_t tokens, int64_t heads) : comm_(comm), tokens_(tokens), heads_(heads) {}
  int64_t ranks() const { return comm_.size(); }
  Share tokens(int64_t rank) const { return share_of(tokens_, rank, ranks()); }
  Share heads(int64_t rank) const { return share_of(heads_, rank, ranks()); }
  Share my_heads() const { return heads(comm_.rank()); }

 private:
  Comm& comm_;
  int64_t tokens_, heads_;
};

// Allocates a tensor for each rank; it is undefined where dims(rank) contains a zero.
template <class Dims>
std::vector<Tensor> room(const Division& all, DType dtype, Arena& arena, Dims&& dims) {
  std::vector<Tensor> out(static_cast<size_t>(all.ranks()));
  for (int64_t rank = 0; rank < all.ranks(); ++rank) {
    const std::vector<int64_t> shape = dims(rank);
    if (std::ranges::find(shape, 0) == shape.end())
      out[static_cast<size_t>(rank)] = arena.tensor(dtype, shape);
  }
  return out;
}

}  // namespace

void attend_by_heads(Comm* comm, int64_t tokens, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend) {
  if (!comm || comm->size() == 1) return attend(mine);
  const int64_t b = mine.q.dim(0), own = mine.q.dim(1), d = mine.q.dim(3);
  const Division all(*comm, tokens, mine.q.dim(2));
  check(all.tokens(comm->rank()).count() == own, ErrorCode::internal,
        "attention: {} tokens on rank {} of {}, which divide {}", own, comm->rank(), comm->size(), tokens);
  const int64_t some = all.my_heads().count();
  const DType dtype = mine.q.dtype;
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const auto each = [&](auto&& visit) {
    for (int64_t rank = 0; rank < all.ranks(); ++rank) visit(rank, static_cast<size_t>(rank));
  };
  const auto heads_of = [&](const Tensor& t, int64_t rank) {
    return t.slice(2, all.heads(rank).first, all.heads(rank).end);
  };
  const auto tokens_of = [&](const Tensor& t, int64_t rank) {
    return t.slice(1, all.tokens(rank).first, all.tokens(rank).end);
  };

  Tensor whole[3], mixed;
  if (some > 0) {
    for (Tensor& t : whole) t = arena.tensor(dtype, {b, tokens, some, d});
    mixed = arena.tensor(dtype, {b, tokens, some, d});
  }
  {
    const ArenaScope inner(arena);
    const auto sent = room(all, dtype, arena, [&](int64_t rank) {
      return std::vector<int64_t>{3, b, own, all.heads(rank).count(), d};
    });
    const auto got = room(all, dtype, arena, [&](int64_t rank) {
      return std::vector<int64_t>{3, b, all.tokens(rank).count(), some, d};
    });
    const Tensor given[] = {mine.q, mine.k, mine.v};
    each([&](int64_t rank, size_t at) {
      for (int64_t i = 0; i < 3 && sent[at].defined(); ++i)
        ops::copy({.x = heads_of(given[i], rank), .y = sent[at].select(0, i)}, stream);
    });
    comm->all_to_all(sent, got, stream);
    each([&](int64_t rank, size_t at) {
      for (int64_t i = 0; i < 3 && got[at].defined(); ++i)
        ops::copy({.x = got[at].select(0, i), .y = tokens_of(whole[i], rank)}, stream);
    });
  }
  if (some > 0) attend({whole[0], whole[1], whole[2], mixed});
  const auto sent = room(all, dtype, arena, [&](int64_t rank) {
    return std::vector<int64_t>{b, all.tokens(rank).count(), some, d};
  });
  const auto got = room(all, dtype, arena, [&](int64_t rank) {
    return std::vector<int64_t>{b, own, all.heads(rank).count(), d};
  });
  each([&](int64_t rank, size_t at) {
    if (sent[at].defined()) ops::copy({.x = tokens_of(mixed, rank), .y = sent[at]}, stream);
  });
  comm->all_to_all(sent, got, stream);
  each([&](int64_t rank, size_t at) {
    if (got[at].defined()) ops::copy({.x = got[at], .y = heads_of(mine.out, rank)}, stream);
  });
}

}  // namespace tachy::runtime
