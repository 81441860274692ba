#include "denoise/rank_seats.h"

#include "tensor/work_tally.h"

namespace tachy {

RankSeats::RankSeats(const runtime::RankLayout& layout, int expert, Session& session)
    : layout_(layout), expert_(expert), session_(session) {
  const bool measuring = session.measuring();
  if (!measuring) {
    RankDevices& devices = *session.devices();
    devices.enter(session.stream(), session.planned_scratch("denoise"));
    team_ = &devices.team(layout);
  }
  for (int rank = 0; rank < layout.count(); ++rank) {
    RankSeat& seat = places_.emplace_back().seat;
    seat = {.layout = layout, .rank = rank};
    if (measuring)
      seat.comm = &alone_.emplace_back(layout.place_of(rank), layout.per_group);
    else
      seat.comm = seat.peers = &team_->comm(rank);
    if (!measuring && !session.placement().keys_stay) seat.contexts = &contexts_;
    if (measuring || rank == 0) continue;
    places_.back().store.emplace(nn::ParamStore::Options{.shelf = session.rank_shelf(expert, rank)},
                                 stream(rank));
  }
}

RankSeats::~RankSeats() {
  places_.clear();
  if (team_ && session_.placement().keeps) session_.devices()->leave_scratch();  // else the decoder takes it
}

void RankSeats::run(const std::function<void(int)>& body) {
  if (team_) {
    session_.stream().memory->synchronize();
    return team_->run(body);
  }
  Hooks& hooks = session_.stream().hooks;
  const Hooks before = hooks;
  for (int rank = 0; rank < layout_.count(); ++rank) {
    if (rank == 0) {
      body(rank);
      continue;
    }
    WorkTally aside;
    const WorkTally::Counting counting(aside);
    hooks.flops = nullptr, hooks.picks = nullptr;
    body(rank);
    hooks = before;
  }
}

Bring RankSeats::settle(int rank) {
  session_.transformer_of(expert_, rank);
  session_.add_adapters_of(expert_, rank);
  return [this, rank](const Tensor& t) {
    if (!t.defined() || t.device.type != DeviceType::cuda) return t;
    Place& mine = places_[static_cast<size_t>(rank)];
    for (const auto& [from, copy] : mine.copies)
      if (from == t.data && same_shape(copy, t)) return copy;
    const Tensor out = mine.store->allocate(t.dtype, t.shape());
    check(t.contiguous(), ErrorCode::internal, "ranks: expected a contiguous tensor, got {}",
          shape_string(t));
    stream(rank).memory->copy(out.data, t.data, static_cast<size_t>(t.bytes()));
    mine.copies.emplace_back(t.data, out);
    return out;
  };
}

}  // namespace tachy
