#include "denoise/rank_passes.h"

#include <algorithm>
#include <deque>

namespace tachy {

Stream RankPasses::stream_of(int rank, const Stream& stream, Arena& arena) const {
  Stream out = stream;
  out.pool = &team_->pool(rank), out.arena = &arena;
  if (rank > 0) out.hooks.picks = nullptr, out.hooks.planned = nullptr;
  return out;
}

size_t RankPasses::scratch_of(int rank, const Stream& stream, const Forward& forward) const {
  Arena measure;
  Stream measured = stream_of(rank, stream, measure);
  measured.hooks.profiler = nullptr;
  runtime::MeetingPlace nobody(layout_.per_group);  // a measuring pass exchanges nothing
  runtime::ThreadComm comm(nobody, layout_.place_of(rank));
  forward(rank, comm, measured);
  return std::max<size_t>(measure.peak(), 1);
}

void RankPasses::run(int64_t kind, Stream& stream, const Forward& forward) {
  std::vector<size_t>& scratch = scratch_[kind];
  if (stream.measuring()) scratch.clear();  // each measured pass counts the work of all ranks
  for (int rank = static_cast<int>(scratch.size()) + 1; rank < layout_.count(); ++rank)
    scratch.push_back(scratch_of(rank, stream, forward));
  const ArenaScope scope(*stream.arena);
  std::deque<Arena> arenas;
  for (const size_t bytes : scratch) arenas.emplace_back(*stream.arena, bytes);
  if (!stream.measuring())
    return team_->run(layout_, [&](int rank, runtime::Comm& comm) {
      Stream own = stream_of(rank, stream, rank == 0 ? *stream.arena : arenas[static_cast<size_t>(rank) - 1]);
      const ProfileRange range(rank > 0 ? own.hooks.profiler : nullptr, "transformer", ProfileKind::group);
      forward(rank, comm, own);
    });
  runtime::MeetingPlace nobody(layout_.per_group);
  runtime::ThreadComm comm(nobody, 0);
  Stream own = stream_of(0, stream, *stream.arena);
  forward(0, comm, own);
}

}  // namespace tachy
