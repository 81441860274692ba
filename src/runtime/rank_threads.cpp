#include "runtime/rank_threads.h"

#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/notice.h"
#include "base/profiler.h"
#include "runtime/thread_comm.h"

namespace tachy::runtime {
namespace {

// One pass of all ranks.
class Pass {
 public:
  Pass(int count, const std::function<void(int)>& body, const std::function<void()>& abandon)
      : count_(count), body_(body), abandon_(abandon) {}

  void run() {
    std::vector<std::thread> threads;
    try {
      for (int rank = 1; rank < count_; ++rank) threads.emplace_back([this, rank] { work(rank); });
    } catch (const std::system_error& e) {
      abandon_();
      for (std::thread& thread : threads) thread.join();
      fail(ErrorCode::out_of_memory, "`ranks`: cannot start rank {} of {}: {}; fewer may work",
           threads.size() + 2, count_, e.code().message());
    }
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (const std::string& line : lines_) say_line(line);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(int rank) {
    const RankOfThread ranges(rank);
    const LineScope told([this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
    try {
      body_(rank);
    } catch (const MeetingPlace::Abandoned&) {  // the error to report is another rank's
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      abandon_();
    }
  }

  const int count_;
  const std::function<void(int)>& body_;
  const std::function<void()>& abandon_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::exception_ptr error_;
};

}  // namespace

void run_ranks(int count, const std::function<void(int)>& body, const std::function<void()>& abandon) {
  Pass(count, body, abandon).run();
}

}  // namespace tachy::runtime
