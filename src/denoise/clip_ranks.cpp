// Divides a clip's pass among ranks on the CPU: groups of ranks take guidance's branches, and within a group
// tokens and heads are divided. All ranks read the same inputs, and the first rank of each group writes its
// branches' velocities.
#include <deque>

#include "denoise/clip_denoiser.h"

namespace tachy {

Stream ClipDenoiser::stream_of(int rank, Arena& arena) const {
  Stream out = stream_;
  out.pool = &ranks_->pool(rank), out.arena = &arena;
  if (rank > 0) out.hooks.profiler = nullptr, out.hooks.picks = nullptr, out.hooks.planned = nullptr;
  return out;
}

size_t ClipDenoiser::scratch_of(int rank, const Pass& pass, const Tensor& velocity) {
  Arena measure;
  Stream stream = stream_of(rank, measure);
  runtime::MeetingPlace nobody(layout_.per_group);  // a measuring pass exchanges nothing
  runtime::ThreadComm comm(nobody, layout_.place_of(rank));
  pass.forward(layout_.group_of(rank), &comm, velocity, stream);
  return std::max<size_t>(measure.peak(), 1);
}

void ClipDenoiser::forward_on_ranks(const Pass& pass, int kind, const Tensor& velocity) {
  std::vector<size_t>& scratch = scratch_[kind];
  if (stream_.measuring()) scratch.clear();  // each measured pass counts the work of all ranks
  for (int rank = static_cast<int>(scratch.size()) + 1; rank < layout_.count(); ++rank)
    scratch.push_back(scratch_of(rank, pass, velocity));
  const ArenaScope scope(*stream_.arena);
  std::deque<Arena> arenas;
  for (const size_t bytes : scratch) arenas.emplace_back(*stream_.arena, bytes);
  const auto run = [&](int rank, runtime::Comm& comm) {
    Stream stream = stream_of(rank, rank == 0 ? *stream_.arena : arenas[static_cast<size_t>(rank) - 1]);
    pass.forward(layout_.group_of(rank), &comm, velocity, stream);
  };
  if (!stream_.measuring()) return ranks_->run(layout_, run);
  runtime::MeetingPlace nobody(layout_.per_group);
  runtime::ThreadComm comm(nobody, 0);
  run(0, comm);
}

}  // namespace tachy
