// A running job in a table that several hosts share: it writes only as long as nobody else can have it.
#include <chrono>
#include <thread>

#include "base/output_lock.h"
#include "workers/running_job.h"

namespace tachy::workers {
namespace {

constexpr std::chrono::milliseconds kBetweenAttempts{500}, kBetweenQuestions{50};

}  // namespace

// Where hosts share a folder, the one that had the job before may still write its state: it stops as soon
// as it hears that its lease is lost.
void RunningJob::wait_for_former() const {
  if (shop_.table.lease_seconds() == 0) return;
  while (!cancel_ && !OutputLock::attempt(folder_.video())) std::this_thread::sleep_for(kBetweenAttempts);
}

// The file gets its name only while nobody else can have the job.
void RunningJob::finishing() {
  while (!shop_.lease.sure()) {
    const Stop why = why_.load();
    check(why != Stop::lost && why != Stop::shutdown && !shop_.lease.lost(), ErrorCode::cancelled,
          "cancelled");
    std::this_thread::sleep_for(kBetweenQuestions);
  }
}

}  // namespace tachy::workers
