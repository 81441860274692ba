#include "denoise/ranks_denoiser.h"

#include "tensor/transfer.h"

namespace tachy {

RanksDenoiser::RanksDenoiser(const Input& in, Session& session)
    : in_(in), seats_(in.layout, in.expert, session), seat_(seats_.seat(0)) {
  if (seats_.measuring()) {
    ranks_.emplace_back().denoiser = in_.make(seat_, [](const Tensor& t) { return t; });
    return;
  }
  for (int rank = 0; rank < in.layout.count(); ++rank) ranks_.emplace_back();
  // The further ones copy what the first one makes of the prompts. For that the host sends it matrices that a run uses
  // once, 4.2 GB of the 14B, which would take as many times as long if it sent them to all.
  seats_.run([&](int rank) {
    if (rank == 0) return make_rank(rank);
    ranks_[static_cast<size_t>(rank)].bring = seats_.settle(rank);
  });
  seats_.run([&](int rank) {
    if (rank > 0) make_rank(rank);
  });
}

void RanksDenoiser::make_rank(int rank) {
  Rank& mine = ranks_[static_cast<size_t>(rank)];
  if (rank == 0) {
    mine.denoiser = in_.make(seats_.seat(0), [](const Tensor& t) { return t; });
    return;
  }
  const MemoryLabel label("denoise: latents, velocities");
  const std::vector<int64_t>& s = in_.latent_shape;
  mine.latents = seats_.store(rank).allocate(DType::f32, s);
  mine.velocity = seats_.store(rank).allocate(DType::f32, {in_.branches, s.at(0), s.at(1), s.at(2), s.at(3)});
  mine.denoiser = in_.make(seats_.seat(rank), mine.bring);
}

void RanksDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  seats_.run([&](int rank) { predict_on(rank, latents, step, velocity); });
}

void RanksDenoiser::predict_on(int rank, const Tensor& latents, int step, const Tensor& velocity) {
  if (seats_.measuring()) {
    seat_ = seats_.seat(rank);
    return ranks_.front().denoiser->predict(latents, step, velocity);
  }
  Rank& mine = ranks_[static_cast<size_t>(rank)];
  if (rank == 0) return mine.denoiser->predict(latents, step, velocity);
  DeviceMemory& memory = *seats_.stream(rank).memory;
  memory.copy(mine.latents.data, latents.data, static_cast<size_t>(latents.bytes()));
  mine.denoiser->predict(mine.latents, step, mine.velocity);
  if (in_.layout.place_of(rank) > 0) return;
  const runtime::Share branches =
      runtime::share_of(velocity.dim(0), in_.layout.group_of(rank), in_.layout.groups);
  const Tensor from = mine.velocity.slice(0, branches.first, branches.end),
               to = velocity.slice(0, branches.first, branches.end);
  memory.copy(to.data, from.data, static_cast<size_t>(to.bytes()));
}

}  // namespace tachy
