#include "runtime/run_on_ranks.h"

namespace tachy::runtime {
namespace {

Stream stream_of(int rank, const Stream& stream, Arena& arena, RankTeam& team) {
  Stream out = stream;
  out.pool = &team.pool(rank), out.arena = &arena;
  if (rank > 0) out.hooks.picks = nullptr, out.hooks.planned = nullptr;
  return out;
}

}  // namespace

void run_on_ranks(RankTeam& team, int ranks, Stream& stream,
                  const std::function<void(Stream&, Comm&)>& body) {
  MeetingPlace nobody(ranks);  // measure runs exchange nothing
  const ArenaScope scope(*stream.arena);
  std::deque<Arena> arenas;
  for (int rank = 1; rank < ranks; ++rank) {
    Arena measure;
    Stream counting = stream_of(rank, stream, measure, team);
    counting.hooks.profiler = nullptr;
    ThreadComm comm(nobody, rank);
    body(counting, comm);
    arenas.emplace_back(*stream.arena, std::max<size_t>(measure.peak(), 1));
  }
  const auto run = [&](int rank, Comm& comm) {
    Stream own =
        stream_of(rank, stream, rank == 0 ? *stream.arena : arenas[static_cast<size_t>(rank) - 1], team);
    body(own, comm);
  };
  if (!stream.measuring()) return team.run({.groups = 1, .per_group = ranks}, run);
  ThreadComm comm(nobody, 0);
  run(0, comm);
}

}  // namespace tachy::runtime
