#include "workers/places_told.h"

namespace tachy::workers {
namespace {

constexpr int64_t kFirst = 10;  // from here on each step forward is told

bool worth_telling(int64_t told, int64_t now) {
  return now != told && (now < kFirst || now <= told / 2 || now >= told * 2);
}

}  // namespace

std::vector<size_t> PlacesTold::to_tell(std::span<const queue::TurnQueue::Next> order) {
  std::vector<size_t> out;
  std::map<std::string, int64_t, std::less<>> now;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& id = order[i].job.id;
    const auto position = static_cast<int64_t>(i);
    const auto earlier = told_.find(id);
    const bool tell = earlier == told_.end() || worth_telling(earlier->second, position);
    if (tell) out.push_back(i);
    now.emplace(id, tell ? position : earlier->second);
  }
  told_ = std::move(now);
  return out;
}

}  // namespace tachy::workers
