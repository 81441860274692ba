#include "runtime/rank_team.h"

#include <algorithm>
#include <numeric>

#include "runtime/rank_threads.h"

namespace tachy::runtime {
RankLayout RankLayout::of(int ranks, int64_t branches, int64_t tokens) {
  const int groups = static_cast<int>(std::gcd<int64_t>(ranks, branches));
  return {.groups = groups, .per_group = static_cast<int>(std::min<int64_t>(ranks / groups, tokens))};
}

int threads_of(int threads, int rank, int ranks) {
  return std::max<int>(1, static_cast<int>(share_of(threads, rank, ranks).count()));
}

RankTeam::RankTeam(int ranks, int threads, std::optional<RankLayout> asked) : asked_(asked) {
  for (int rank = 0; rank < ranks; ++rank) pools_.emplace_back(threads_of(threads, rank, ranks));
}

void RankTeam::run(const RankLayout& layout, const std::function<void(int, Comm&)>& body) {
  check(layout.count() <= size(), ErrorCode::internal, "ranks: {} of {}", layout.count(), size());
  std::deque<MeetingPlace> places;
  for (int g = 0; g < layout.groups; ++g) places.emplace_back(layout.per_group);
  const auto work = [&](int rank) {
    ThreadComm comm(places[static_cast<size_t>(layout.group_of(rank))], layout.place_of(rank));
    body(rank, comm);
  };
  run_ranks(layout.count(), work, [&] {
    for (MeetingPlace& place : places) place.abandon();
  });
}

}  // namespace tachy::runtime
