#include "runtime/rank_team.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>

#include "base/notice.h"

namespace tachy::runtime {
namespace {

// One pass of all ranks.
class Pass {
 public:
  Pass(const RankLayout& layout, const std::function<void(int, Comm&)>& body) : layout_(layout), body_(body) {
    for (int g = 0; g < layout.groups; ++g) places_.emplace_back(layout.per_group);
  }

  void run() {
    std::vector<std::thread> threads;
    try {
      for (int rank = 1; rank < layout_.count(); ++rank) threads.emplace_back([this, rank] { work(rank); });
    } catch (const std::system_error& e) {
      abandon();
      for (std::thread& thread : threads) thread.join();
      fail(ErrorCode::out_of_memory, "`ranks`: cannot start rank {} of {}: {}; fewer may work",
           threads.size() + 2, layout_.count(), e.code().message());
    }
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (const std::string& line : lines_) say_line(line);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(int rank) {
    const LineScope told([this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
    ThreadComm comm(places_[static_cast<size_t>(layout_.group_of(rank))], layout_.place_of(rank));
    try {
      body_(rank, comm);
    } catch (const MeetingPlace::Abandoned&) {  // the error to report is another rank's
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      abandon();
    }
  }
  void abandon() {
    for (MeetingPlace& place : places_) place.abandon();
  }

  const RankLayout layout_;
  const std::function<void(int, Comm&)>& body_;
  std::deque<MeetingPlace> places_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::exception_ptr error_;
};

}  // namespace

RankLayout RankLayout::of(int ranks, int64_t branches, int64_t tokens) {
  const int groups = static_cast<int>(std::gcd<int64_t>(ranks, branches));
  return {groups, static_cast<int>(std::min<int64_t>(ranks / groups, tokens))};
}

int threads_of(int threads, int rank, int ranks) {
  return std::max<int>(1, static_cast<int>(share_of(threads, rank, ranks).count()));
}

RankTeam::RankTeam(int ranks, int threads) {
  for (int rank = 0; rank < ranks; ++rank) pools_.emplace_back(threads_of(threads, rank, ranks));
}

void RankTeam::run(const RankLayout& layout, const std::function<void(int, Comm&)>& body) {
  check(layout.count() <= size(), ErrorCode::internal, "ranks: {} of {}", layout.count(), size());
  Pass(layout, body).run();
}

}  // namespace tachy::runtime
