// Tests UsualWait with a clock of its own: how late it returns, how often it checks, and that it never
// oversleeps for long.
#include "runtime/usual_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace tachy::runtime {
namespace {

struct Time {
  double now = 1000;    // any number will do
  double over = 70e-6;  // time by which a sleep lasts too long
  int looks = 0, sleeps = 0;
  UsualWait::Clock clock() {
    return {[this] { return now; },
            [this](double seconds) {
              EXPECT_GT(seconds, 0);
              now += seconds + over, ++sleeps;
            }};
  }
};

struct Result {
  double late;
  int looks;
};

// Waits for something that takes this long.
Result wait(UsualWait& w, Time& time, double takes) {
  const double begin = time.now, end = begin + takes;
  const int before = time.looks;
  const double returned = w.until([&] { return ++time.looks, time.now >= end; }, begin);
  EXPECT_EQ(returned, time.now);
  EXPECT_GE(returned, end);
  return {returned - end, time.looks - before};
}

TEST(UsualWait, IsThereAtOnce) {
  Time time;
  UsualWait w(time.clock());
  for (int i = 0; i < 20; ++i) {
    const Result r = wait(w, time, 0);
    EXPECT_EQ(r.looks, 1);
    EXPECT_EQ(r.late, 0);
  }
  EXPECT_EQ(time.sleeps, 0);
}

TEST(UsualWait, FewLooksAndSoonBackWhereWaitsAreAlike) {
  std::mt19937 gen(1);
  for (const double usual : {0.0005, 0.002, 0.011, 0.07, 0.4}) {
    std::normal_distribution<double> noise(0, 0.004 * usual);
    Time time;
    UsualWait w(time.clock());
    double latest = 0;
    int looks = 0;
    for (int i = 0; i < 200; ++i) {
      const Result r = wait(w, time, usual + noise(gen));
      if (i < 20) continue;
      latest = std::max(latest, r.late), looks += r.looks;
    }
    EXPECT_LE(latest, 0.4e-3 + 0.01 * usual) << usual;
    EXPECT_LE(looks / 180.0, 5 + 0.02 * usual / 120e-6) << usual;
  }
}

TEST(UsualWait, NobodyKnowsHowLongTheFirstTake) {
  Time time;
  UsualWait w(time.clock());
  const Result r = wait(w, time, 3);
  EXPECT_LE(r.late, 1.1e-3);
  EXPECT_LE(r.looks, 3100);
  for (int i = 0; i < 3; ++i) EXPECT_LE(wait(w, time, 0.05).late, 1.1e-3) << "3 s are not slept again";
}

TEST(UsualWait, WhatBecomesFasterIsNotSleptThroughForLong) {
  Time time;
  UsualWait w(time.clock());
  for (int i = 0; i < 20; ++i) wait(w, time, 0.6);
  double lost = 0;
  for (int i = 0; i < 40; ++i) {
    const double late = wait(w, time, 0.07).late;
    lost += late;
    if (i >= 8) EXPECT_LE(late, 1.1e-3) << i;
    if (i >= 20) EXPECT_LE(late, 0.2e-3) << i;
  }
  EXPECT_LE(lost, 2.6);
}

TEST(UsualWait, WhatBecomesSlowerIsStillNoticedSoon) {
  Time time;
  UsualWait w(time.clock());
  for (int i = 0; i < 20; ++i) wait(w, time, 0.01);
  for (int i = 0; i < 20; ++i) {
    const Result r = wait(w, time, 0.2);
    EXPECT_LE(r.late, 1.1e-3) << i;
    EXPECT_LE(r.looks, 260) << i;
  }
  EXPECT_LE(wait(w, time, 0.2).looks, 4) << "by now it is the usual";
}

TEST(UsualWait, SomeOfAnotherLengthDoNoHarm) {
  Time time;
  UsualWait w(time.clock());
  for (int i = 0; i < 100; ++i) {
    const bool other = i % 10 == 9;
    EXPECT_LE(wait(w, time, other ? 0.09 : 0.07).late, 1.1e-3) << i;
  }
}

TEST(UsualWait, WhatLookingThrowsPassesThrough) {
  Time time;
  UsualWait w(time.clock());
  EXPECT_THROW(w.until([]() -> bool { throw std::runtime_error("the device has failed"); }, time.now),
               std::runtime_error);
  EXPECT_LE(wait(w, time, 0.01).late, 1.1e-3);
}

TEST(UsualWait, OfTheSystemsClock) {
  UsualWait w;
  const double begin = w.now();
  int looks = 0;
  const double end = w.until([&] { return ++looks == 5; }, begin);
  EXPECT_GE(end - begin, 4 * 50e-6);
  EXPECT_LT(end - begin, 5);
  EXPECT_GE(w.now(), end);
}

}  // namespace
}  // namespace tachy::runtime
