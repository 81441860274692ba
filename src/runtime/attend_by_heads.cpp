#include "runtime/attend_by_heads.h"

#include <vector>

#include "ops/elementwise/elementwise.h"
#include "ops/merge_softmax/merge_softmax.h"
#include "runtime/division.h"
#include "runtime/pace.h"

namespace tachy::runtime {
namespace {

// Allocates a tensor for each peer in a list of all ranks; it is undefined where dims(peer) contains a zero.
template <class Dims>
std::vector<Tensor> room(const Division& all, DType dtype, Arena& arena, Dims&& dims) {
  std::vector<Tensor> out(static_cast<size_t>(all.ranks()));
  for (int64_t peer = 0; peer < all.peers(); ++peer) {
    const std::vector<int64_t> shape = dims(peer);
    if (std::ranges::find(shape, 0) == shape.end())
      out[static_cast<size_t>(all.rank_of(peer))] = arena.tensor(dtype, shape);
  }
  return out;
}

// Calls visit(peer, the peer's place in a list of room()).
template <class Visit>
void each_peer(const Division& all, Visit&& visit) {
  for (int64_t peer = 0; peer < all.peers(); ++peer) visit(peer, static_cast<size_t>(all.rank_of(peer)));
}

Tensor heads_of(const Division& all, const Tensor& t, int64_t peer) {
  return t.slice(2, all.heads(peer).first, all.heads(peer).end);
}

// Views t [B, tokens, heads, D], whose tokens lie frame after frame, as [B·frames, places, heads, D].
Tensor by_frames(const Tensor& t, int64_t frames) {
  if (frames == 1) return t;
  const int64_t places = t.dim(1) / frames;
  check(t.dim(0) == 1 || t.stride(0) == t.dim(1) * t.stride(1), ErrorCode::internal,
        "attention: the samples of {} lie apart", shape_string(t));
  Tensor out(t.data, t.dtype, {t.dim(0) * frames, places, t.dim(2), t.dim(3)}, t.device);
  for (int i = 1; i < 4; ++i) out.strides[i] = t.stride(i);
  out.strides[0] = places * t.stride(1);
  return out;
}

// Writes each rank's part of q, k and v straight into that rank's memory, and the results back. There is no ring.
void exchange_as_views(Comm& comm, const Division& all, const HeadTensors& mine, Stream& stream,
                       const std::function<void(const HeadTensors&)>& attend) {
  const int64_t b = mine.q.dim(0), own = mine.q.dim(1), d = mine.q.dim(3), some = all.my_heads();
  HeadTensors whole;
  if (some > 0)
    for (Tensor* t : {&whole.q, &whole.k, &whole.v, &whole.out})
      *t = stream.arena->tensor(mine.q.dtype, {b, all.tokens_of_part(0), some, d});
  const auto heads = [&](const Tensor& t, int64_t rank) {
    const bool none = all.heads(rank).count() == 0 || own == 0;
    return none ? Tensor() : heads_of(all, by_frames(t, all.frames()), rank);
  };
  const auto tokens = [&](const Tensor& t, int64_t rank) {
    const Share s = all.places(rank);
    return some > 0 && s.count() > 0 ? by_frames(t, all.frames()).slice(1, s.first, s.end) : Tensor();
  };
  const auto n = static_cast<double>(all.tokens_of_part(0));
  const bool even = mine.q.dim(2) % all.peers() == 0 && !all.together();  // as all ranks find
  const int64_t groups = even ? groups_of_heads(stream, some, 4 * n * n * static_cast<double>(d)) : 1;
  const int64_t each = some / groups;
  const auto group_of = [&](const Tensor& t, int64_t i) {
    return groups == 1 || !t.defined() ? t : t.slice(2, i * each, (i + 1) * each);
  };
  std::vector<Tensor> from, to;
  std::vector<int> coming, going;
  const auto send = [&](std::vector<int>& sent, int64_t urgent) {  // attention hides all but an urgent one
    const ProfileRange range(stream.hooks.profiler, groups > 1 ? "own heads" : "exchange",
                             ProfileKind::other);
    const bool patient = std::ssize(sent) != urgent && own_parts_beside();
    if (groups > 1) return sent.push_back(comm.begin_views(from, to, stream, patient));
    comm.all_to_all_views(from, to, stream);
  };
  const auto arrive = [&](int exchange, const char* name) {
    const ProfileRange range(stream.hooks.profiler, name, ProfileKind::other);
    comm.arrive(exchange, stream);
  };
  comm.line_up(stream);
  for (int64_t i = 0; i < groups; ++i) {
    from.clear(), to.clear();
    for (const auto& [given, full] : {std::pair(mine.q, whole.q), {mine.k, whole.k}, {mine.v, whole.v}})
      for (int64_t rank = 0; rank < all.ranks(); ++rank)
        from.push_back(group_of(heads(given, rank), i)), to.push_back(group_of(tokens(full, rank), i));
    send(coming, 0);
  }
  for (int64_t i = 0; i < groups; ++i) {
    if (groups > 1) arrive(coming[static_cast<size_t>(i)], "heads that come");
    if (some > 0)
      attend({group_of(whole.q, i), group_of(whole.k, i), group_of(whole.v, i), group_of(whole.out, i)});
    if (i + 1 == groups) comm.line_up(stream);
    from.clear(), to.clear();
    for (int64_t rank = 0; rank < all.ranks(); ++rank)
      from.push_back(group_of(tokens(whole.out, rank), i)), to.push_back(group_of(heads(mine.out, rank), i));
    send(going, groups - 1);
  }
  for (const int exchange : going) arrive(exchange, "heads that go back");
}

// Gives this rank's tokens to its peers, and puts what they give into q, k and v [B, tokens of the part, own
// heads, D].
void to_heads(Comm& comm, const Division& all, const HeadTensors& mine, const Tensor* to, Stream& stream) {
  const int64_t b = mine.q.dim(0), own = mine.q.dim(1), d = mine.q.dim(3), some = all.my_heads();
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  comm.line_up(stream);
  const ProfileRange range(stream.hooks.profiler, "heads that come", ProfileKind::other);
  const auto sent = room(all, mine.q.dtype, arena, [&](int64_t peer) {
    return std::vector<int64_t>{3, b, own, all.heads(peer).count(), d};
  });
  const auto got = room(all, mine.q.dtype, arena, [&](int64_t peer) {
    return std::vector<int64_t>{3, b, all.tokens(all.rank_of(peer)), some, d};
  });
  const Tensor given[] = {mine.q, mine.k, mine.v};
  each_peer(all, [&](int64_t peer, size_t at) {
    for (int64_t i = 0; i < 3 && sent[at].defined(); ++i)
      ops::copy({.x = heads_of(all, given[i], peer), .y = sent[at].select(0, i)}, stream);
  });
  comm.all_to_all(sent, got, stream);
  each_peer(all, [&](int64_t peer, size_t at) {
    for (int64_t i = 0; i < 3 && got[at].defined(); ++i) {
      const Tensor place = all.tokens_of(to[i], peer);
      ops::copy({.x = got[at].select(0, i).view({b, all.frames(), -1, some, d}), .y = place}, stream);
    }
  });
}

// Gives each peer the results of its tokens.
void to_tokens(Comm& comm, const Division& all, const Tensor& mixed, const Tensor& out, Stream& stream) {
  const int64_t b = out.dim(0), own = out.dim(1), d = out.dim(3), some = all.my_heads();
  Arena& arena = *stream.arena;
  comm.line_up(stream);
  const ProfileRange range(stream.hooks.profiler, "heads that go back", ProfileKind::other);
  const auto sent = room(all, out.dtype, arena, [&](int64_t peer) {
    return std::vector<int64_t>{b, all.tokens(all.rank_of(peer)), some, d};
  });
  const auto got = room(all, out.dtype, arena, [&](int64_t peer) {
    return std::vector<int64_t>{b, own, all.heads(peer).count(), d};
  });
  each_peer(all, [&](int64_t peer, size_t at) {
    if (!sent[at].defined()) return;
    const Tensor from = all.tokens_of(mixed, peer);
    ops::copy({.x = from, .y = sent[at].view({b, all.frames(), -1, some, d})}, stream);
  });
  comm.all_to_all(sent, got, stream);
  each_peer(all, [&](int64_t peer, size_t at) {
    if (got[at].defined()) ops::copy({.x = got[at], .y = heads_of(all, out, peer)}, stream);
  });
}

// Attends to the keys of one part of the ring after the other, beginning with the rank's own. Ranks without
// heads only take part in the exchanges.
class Ring {
 public:
  Ring(Comm& comm, const Division& all, int parts, Stream& stream)
      : comm_(comm), all_(all), parts_(parts), stream_(stream) {}

  // kv [2, B, tokens of the part, heads, D] is this rank's own.
  void run(const Tensor& q, const Tensor& kv, const Tensor& mixed,
           const std::function<void(const HeadTensors&)>& attend) {
    Tensor lse, part, lse_of_part, kept[2];
    const bool some = mixed.defined();
    if (some) {
      lse = stream_.arena->f32({q.dim(0), q.dim(2), q.dim(1)});
      lse_of_part = stream_.arena->f32({q.dim(0), q.dim(2), q.dim(1)});
      part = stream_.arena->tensor(q.dtype, q.shape());
      int64_t most = 0;
      for (int64_t i = 0; i < parts_; ++i) most = std::max(most, all_.tokens_of_part(i));
      for (Tensor& t : kept) t = stream_.arena->tensor(q.dtype, {2 * q.dim(0) * most * q.dim(2) * q.dim(3)});
    }
    Tensor now = kv;
    for (int64_t step = 0; step < parts_; ++step) {
      if (some && step == 0) attend({q, now.select(0, 0), now.select(0, 1), mixed, lse});
      if (some && step > 0) {
        attend({q, now.select(0, 0), now.select(0, 1), part, lse_of_part});
        ops::merge_softmax({.x = part, .x_lse = lse_of_part, .y = mixed, .y_lse = lse}, stream_);
      }
      if (step + 1 < parts_) now = pass_on(now, q, step, kept[step % 2]);
    }
  }

 private:
  // Hands keys and values to the next part's rank, and takes those that the previous one has.
  Tensor pass_on(const Tensor& now, const Tensor& q, int64_t step, const Tensor& room) {
    const int64_t own = all_.part(), coming = (own + 2 * parts_ - step - 1) % parts_;
    std::vector<Tensor> from(static_cast<size_t>(all_.ranks())), to = from;
    Tensor next;
    if (now.defined()) {
      const int64_t tokens = all_.tokens_of_part(coming);
      next = room.slice(0, 0, 2 * q.dim(0) * tokens * q.dim(2) * q.dim(3))
                 .view({2, q.dim(0), tokens, q.dim(2), q.dim(3)});
      from[static_cast<size_t>(all_.rank_in((own + 1) % parts_))] = now;
      to[static_cast<size_t>(all_.rank_in((own + parts_ - 1) % parts_))] = next;
    }
    comm_.line_up(stream_);
    const ProfileRange range(stream_.hooks.profiler, "keys that go round", ProfileKind::other);
    comm_.all_to_all(from, to, stream_);
    return next;
  }

  Comm& comm_;
  const Division& all_;
  const int64_t parts_;
  Stream& stream_;
};

}  // namespace

void attend_by_heads(Comm* comm, const Spread& spread, const HeadTensors& mine, Stream& stream,
                     const std::function<void(const HeadTensors&)>& attend) {
  if (!comm || comm->size() == 1) return attend(mine);
  const int64_t b = mine.q.dim(0), own = mine.q.dim(1), d = mine.q.dim(3);
  check(spread.tokens % spread.frames == 0 && comm->size() % spread.ring == 0 &&
            spread.tokens_of(comm->rank(), comm->size()) == own,
        ErrorCode::internal, "attention: {} tokens on rank {} of {}, which divide {} ({} frames, ring of {})",
        own, comm->rank(), comm->size(), spread.tokens, spread.frames, spread.ring);
  const Division all(*comm, spread, mine.q.dim(2));
  const int64_t some = all.my_heads(), tokens = all.tokens_of_part(all.part());
  const ArenaScope scope(*stream.arena);
  if (comm->moves_views() && spread.ring == 1) return exchange_as_views(*comm, all, mine, stream, attend);
  Tensor whole[3], kv, mixed;
  if (some > 0) {
    whole[0] = stream.arena->tensor(mine.q.dtype, {b, tokens, some, d});
    kv = stream.arena->tensor(mine.q.dtype, {2, b, tokens, some, d});
    whole[1] = kv.select(0, 0), whole[2] = kv.select(0, 1);
    mixed = stream.arena->tensor(mine.q.dtype, {b, tokens, some, d});
  }
  to_heads(*comm, all, mine, whole, stream);
  if (spread.ring > 1) {
    const ArenaScope inner(*stream.arena);
    Ring(*comm, all, spread.ring, stream).run(whole[0], kv, mixed, attend);
  } else if (some > 0) {
    attend({whole[0], whole[1], whole[2], mixed});
  }
  to_tokens(*comm, all, mixed, mine.out, stream);
}

}  // namespace tachy::runtime
