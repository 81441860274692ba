#include "denoise/ranks_denoiser.h"

#include "request/stage_plan.h"
#include "runtime/nobody_else.h"
#include "tensor/transfer.h"
#include "tensor/work_tally.h"

namespace tachy {
RanksDenoiser::RanksDenoiser(const Input& in, Session& session) : in_(in), session_(session) {
  if (session.measuring()) {
    ranks_.emplace_back().seat = {.layout = in.layout};
    ranks_.front().denoiser = in_.make(ranks_.front().seat, [](const Tensor& t) { return t; });
    return;
  }
  RankDevices& devices = *session.devices();
  devices.enter(session.stream(), session.planned_scratch("denoise"));
  team_ = &devices.team(in.layout);
  for (int rank = 0; rank < in.layout.count(); ++rank) ranks_.emplace_back();
  session.stream().memory->synchronize();  // what the ranks copy is there
  team_->run([&](int rank) { make_rank(rank); });
}

RanksDenoiser::~RanksDenoiser() {
  if (team_) session_.devices()->leave_scratch();
}

Stream& RanksDenoiser::stream_of(int rank) {
  return rank == 0 ? session_.stream() : session_.devices()->place(rank).stream;
}

void RanksDenoiser::make_rank(int rank) {
  Rank& mine = ranks_[static_cast<size_t>(rank)];
  runtime::PeerComm& comm = team_->comm(rank);
  mine.seat = {.layout = in_.layout, .rank = rank, .comm = &comm, .peers = &comm};
  if (rank == 0) {
    mine.denoiser = in_.make(mine.seat, [](const Tensor& t) { return t; });
    return;
  }
  Stream& stream = stream_of(rank);
  const MemoryLabel label("denoise: latents, velocities");
  mine.store.emplace(nn::ParamStore::Options{.shelf = session_.rank_shelf(in_.expert, rank)}, stream);
  const std::vector<int64_t>& s = in_.latent_shape;
  mine.latents = mine.store->allocate(DType::f32, s);
  mine.velocity = mine.store->allocate(DType::f32, {in_.branches, s.at(0), s.at(1), s.at(2), s.at(3)});
  session_.transformer_of(in_.expert, rank);
  session_.add_adapters_of(in_.expert, rank);
  mine.denoiser = in_.make(mine.seat, [&](const Tensor& t) {
    if (!t.defined() || t.device.type != DeviceType::cuda) return t;
    for (const auto& [from, copy] : mine.copies)
      if (from == t.data && same_shape(copy, t)) return copy;
    const Tensor out = mine.store->allocate(t.dtype, t.shape());
    check(t.contiguous(), ErrorCode::internal, "ranks: expected a contiguous tensor, got {}",
          shape_string(t));
    stream.memory->copy(out.data, t.data, static_cast<size_t>(t.bytes()));
    mine.copies.emplace_back(t.data, out);
    return out;
  });
}

void RanksDenoiser::measure(const Tensor& latents, int step, const Tensor& velocity) {
  Rank& only = ranks_.front();
  const Hooks hooks = session_.stream().hooks;
  for (int rank = 0; rank < in_.layout.count(); ++rank) {
    runtime::NobodyElse comm(in_.layout.place_of(rank), in_.layout.per_group);
    only.seat.rank = rank, only.seat.comm = &comm;
    if (rank == 0) {
      only.denoiser->predict(latents, step, velocity);
      continue;
    }
    // Only the first rank's work is counted: the others do theirs meanwhile.
    WorkTally aside;
    const WorkTally::Counting counting(aside);
    session_.stream().hooks.flops = nullptr, session_.stream().hooks.picks = nullptr;
    only.denoiser->predict(latents, step, velocity);
    session_.stream().hooks = hooks;
  }
}

void RanksDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  if (!team_) return measure(latents, step, velocity);
  session_.stream().memory->synchronize();  // the latents are there
  team_->run([&](int rank) { predict_on(rank, latents, step, velocity); });
}

void RanksDenoiser::predict_on(int rank, const Tensor& latents, int step, const Tensor& velocity) {
  Rank& mine = ranks_[static_cast<size_t>(rank)];
  if (rank == 0) return mine.denoiser->predict(latents, step, velocity);
  DeviceMemory& memory = *stream_of(rank).memory;
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
