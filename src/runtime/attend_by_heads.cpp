#include "runtime/attend_by_heads.h"

#include "ops/elementwise/elementwise.h"

namespace tachy::runtime {

void attend_by_heads(Comm* comm, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend) {
  const int64_t ranks = comm ? comm->size() : 1;
  if (ranks == 1) return attend(mine);
  const int64_t b = mine.q.dim(0), tokens = mine.q.dim(1), heads = mine.q.dim(2), d = mine.q.dim(3);
  check(heads % ranks == 0, ErrorCode::unsupported, "attention: {} heads do not divide among {} ranks", heads,
        ranks);
  const int64_t some = heads / ranks;
  const auto heads_of = [&](const Tensor& t, int64_t rank) {
    return t.slice(2, rank * some, (rank + 1) * some);
  };
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const auto room = [&](std::initializer_list<int64_t> dims) { return arena.tensor(mine.q.dtype, dims); };

  const Tensor all = room({3, b, ranks, tokens, some, d}), mixed = room({b, ranks, tokens, some, d});
  {
    const ArenaScope inner(arena);
    const Tensor sent = room({ranks, 3, b, tokens, some, d}), got = room({ranks, 3, b, tokens, some, d});
    const Tensor given[] = {mine.q, mine.k, mine.v};
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t i = 0; i < 3; ++i)
        ops::copy({.x = heads_of(given[i], rank), .y = sent.select(0, rank).select(0, i)}, stream);
    comm->all_to_all(sent, got, stream);
    ops::copy({.x = got.transpose(0, 1).transpose(1, 2), .y = all}, stream);
  }
  const auto whole = [&](const Tensor& t) { return t.view({b, ranks * tokens, some, d}); };
  attend({whole(all.select(0, 0)), whole(all.select(0, 1)), whole(all.select(0, 2)), whole(mixed)});
  const Tensor sent = room({ranks, b, tokens, some, d}), got = room({ranks, b, tokens, some, d});
  ops::copy({.x = mixed.transpose(0, 1), .y = sent}, stream);
  comm->all_to_all(sent, got, stream);
  for (int64_t rank = 0; rank < ranks; ++rank)
    ops::copy({.x = got.select(0, rank), .y = heads_of(mine.out, rank)}, stream);
}

}  // namespace tachy::runtime
