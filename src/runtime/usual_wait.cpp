#include "runtime/usual_wait.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace tachy::runtime {

UsualWait::Clock UsualWait::system_clock() {
  using std::chrono::duration, std::chrono::steady_clock;
  return {[] { return duration<double>(steady_clock::now().time_since_epoch()).count(); },
          [](double seconds) { std::this_thread::sleep_for(duration<double>(seconds)); }};
}

double UsualWait::least() const {
  if (waits_ < kFewest) return 0;
  return *std::min_element(took_.begin(), took_.begin() + std::min<uint64_t>(waits_, kKept));
}

// If the work had arrived before the first check, it is unknown how much earlier. So the next first check
// comes sooner, and if this repeats, sooner and sooner: by 1/256, 1/64, 1/16, 1/4 and 1/2 of the time.
void UsualWait::remember(double took, bool looked_too_late) {
  too_late_ = looked_too_late ? std::min(too_late_ + 1, 5) : 0;
  const double sooner = looked_too_late ? std::min(std::ldexp(1.0, 2 * too_late_ - 10), 0.5) : 0;
  took_[waits_++ % kKept] = took * (1 - sooner);
}

double UsualWait::until(const std::function<bool()>& arrived, double since) {
  const double expected = since + least() - kEarly;
  const double begin = clock_.now();
  if (expected > begin) clock_.sleep(expected - begin);
  bool at_once = true;
  double looked = since;  // when the work had certainly not arrived
  for (double nap = kNap; !arrived(); at_once = false) {
    looked = clock_.now();
    clock_.sleep(nap);
    // Naps grow if the wait is unusually long, or if there is no estimate.
    if (waits_ < kFewest || clock_.now() > expected + 0.1 * (expected - since) + 10 * kNap)
      nap = std::min(nap * kGrowth, kLongestNap);
  }
  const double end = clock_.now();
  // If the work had arrived before the wait began, its duration is unknown.
  if (!at_once || expected > begin) remember((at_once ? end : looked) - since, at_once);
  return end;
}

}  // namespace tachy::runtime
