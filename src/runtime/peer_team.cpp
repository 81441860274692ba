#include "runtime/peer_team.h"

#include "runtime/rank_threads.h"

namespace tachy::runtime {

PeerTeam::PeerTeam(const RankLayout& layout, std::vector<std::shared_ptr<cuda::Gpu>> gpus)
    : layout_(layout), gpus_(std::move(gpus)) {
  check(static_cast<int>(gpus_.size()) == layout.count(), ErrorCode::internal, "ranks: {} GPUs for {} ranks",
        gpus_.size(), layout.count());
  for (int g = 0; g < layout.groups; ++g) {
    std::vector<cuda::Gpu*> group;
    for (int place = 0; place < layout.per_group; ++place)
      group.push_back(gpus_[static_cast<size_t>(g * layout.per_group + place)].get());
    places_.emplace_back(layout.per_group);
    groups_.push_back(cuda::join_peers(group));
  }
  for (int rank = 0; rank < layout.count(); ++rank) {
    const auto g = static_cast<size_t>(layout.group_of(rank));
    comms_.emplace_back(places_[g], *groups_[g], *gpus_[static_cast<size_t>(rank)], layout.place_of(rank));
  }
}

void PeerTeam::run(const std::function<void(int)>& body) {
  const auto work = [&](int rank) {
    body(rank);
    gpus_[static_cast<size_t>(rank)]->synchronize();
    try {
      groups_[static_cast<size_t>(layout_.group_of(rank))]->check();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled)
        throw MeetingPlace::Abandoned{};  // another rank has ended the team
      throw;
    }
  };
  const auto end = [&] {
    for (MeetingPlace& place : places_) place.abandon();
    for (const auto& group : groups_) group->stop();
  };
  try {
    run_ranks(layout_.count(), work, end);
  } catch (...) {
    // Copies that are still queued may write into memory that the caller, or another rank, is about to give back.
    for (const auto& group : groups_) group->settle();
    for (const auto& gpu : gpus_) try {
        gpu->synchronize();
      } catch (const Error&) {  // that device has failed
      }
    throw;
  }
}

}  // namespace tachy::runtime
