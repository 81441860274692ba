#include "on_cards.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tachy::cli {

void on_cards(size_t cards, size_t jobs, const std::function<void(size_t card, size_t job)>& run) {
  std::mutex mutex;
  size_t next = 0;
  std::exception_ptr error;
  const auto work = [&](size_t card) {
    for (;;) {
      size_t job = 0;
      {
        const std::lock_guard lock(mutex);
        if (error || next == jobs) return;
        job = next++;
      }
      try {
        run(card, job);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t card = 1; card < std::min(cards, jobs); ++card) others.emplace_back(work, card);
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tachy::cli
