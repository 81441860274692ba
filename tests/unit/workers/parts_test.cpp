// The parts of the workers by themselves: progress by the plan's seconds, rates, and which places are told.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "shop_floor.h"
#include "workers/after_run.h"
#include "workers/job_of_row.h"
#include "workers/places_told.h"
#include "workers/progress_meter.h"
#include "workers/rates.h"
#include "workers/reporter.h"

namespace tachy {
namespace {

using namespace test;
using namespace workers;

VideoPlan plan_of(double text, double denoise, double decode) {
  VideoPlan plan;
  plan.stages = {{.name = "text", .seconds = text},
                 {.name = "denoise", .seconds = denoise},
                 {.name = "decode", .seconds = decode}};
  return plan;
}

TEST(ProgressMeterTest, CountsThePlansSeconds) {
  ProgressMeter meter(plan_of(10, 80, 10), {}, 0);
  meter.tell({.stage = "text", .done = 0, .total = 1}, 0);
  EXPECT_EQ(meter.percent(), 0);
  meter.tell({.stage = "text", .done = 1, .total = 1}, 10);
  EXPECT_EQ(meter.percent(), 10);
  meter.tell({.stage = "load", .done = 1, .total = 2}, 500);
  EXPECT_EQ(meter.percent(), 10);
  meter.tell({.stage = "denoise", .done = 0, .total = 4}, 500);
  meter.tell({.stage = "denoise", .done = 2, .total = 4}, 540);
  EXPECT_EQ(meter.percent(), 50);
  EXPECT_NEAR(meter.seconds_left(), 50, 10) << "it runs as planned, and loading comes once";
  meter.tell({.stage = "decode", .done = 9, .total = 9}, 600);
  EXPECT_LE(meter.percent(), 99);
}

TEST(ProgressMeterTest, WindowsAddUpAndNothingGoesBack) {
  ProgressMeter meter(plan_of(0, 80, 20), {}, 0);
  int last = 0;
  for (int window = 0; window < 2; ++window) {
    for (int step = 0; step <= 5; ++step) {
      meter.tell({.stage = "denoise", .done = window * 5 + step, .total = 10, .window = window, .windows = 2},
                 1);
      EXPECT_GE(meter.percent(), last);
      last = meter.percent();
    }
    meter.tell({.stage = "decode", .done = (window + 1) * 10, .total = 20, .window = window, .windows = 2},
               1);
    EXPECT_EQ(meter.percent(), window == 0 ? 50 : 99);
    last = meter.percent();
  }
}

TEST(ProgressMeterTest, ARunThatGoesOnBeginsWhereItWas) {
  ProgressMeter meter(plan_of(10, 80, 10), {}, 60);
  EXPECT_EQ(meter.percent(), 60);
  meter.tell({.stage = "denoise", .done = 1, .total = 4}, 0);
  EXPECT_EQ(meter.percent(), 60) << "it never goes back";
  meter.tell({.stage = "denoise", .done = 3, .total = 4}, 80);
  EXPECT_EQ(meter.percent(), 70);
  EXPECT_GT(meter.seconds_left(), 45) << "it is half as fast as planned";
}

TEST(RatesTest, LearnAndAreKept) {
  TemporaryFiles files;
  const VideoPlan plan = plan_of(1, 10, 2);
  {
    Rates rates(files.path / "rates.json");
    EXPECT_NEAR(rates.of("wan@cpu").seconds(plan), 13, 1e-9) << "as planned";
    rates.learn("wan@cpu", plan,
                {.stages = {{"text", 40}, {"denoise", 20}, {"decode", 1}}, .all = 90, .loaded = true});
    rates.learn("wan@cpu", plan, {.stages = {{"text", 1}, {"denoise", 20}, {"decode", 1}}, .all = 23});
    EXPECT_NEAR(rates.of("wan@cpu").seconds(plan), 23, 1e-9) << "the run that loaded is forgotten";
    rates.learn("wan@cpu", plan, {.stages = {{"text", 99}, {"denoise", 99}}, .all = 999, .loaded = true});
    EXPECT_NEAR(rates.of("wan@cpu").seconds(plan), 23, 1e-9) << "loading comes once";
    for (int i = 0; i < 50; ++i)
      rates.learn("wan@cpu", plan, {.stages = {{"text", 1}, {"denoise", 30}, {"decode", 2}}, .all = 34});
  }
  EXPECT_NEAR(Rates(files.path / "rates.json").of("wan@cpu").seconds(plan), 34, 1);
  std::ofstream(files.path / "rates.json") << "{\"wan@cpu\": 3";
  EXPECT_EQ(Rates(files.path / "rates.json").of("wan@cpu").runs, 0) << "a damaged file is empty";
}

TEST(PlacesToldTest, NewOnesTheFirstAndHalves) {
  const auto order = [](int first, int end) {
    std::vector<queue::TurnQueue::Next> out;
    for (int i = first; i < end; ++i) out.push_back({.job = {.id = std::to_string(i)}});
    return out;
  };
  PlacesTold told;
  EXPECT_EQ(told.to_tell(order(0, 1000)).size(), 1000);
  EXPECT_EQ(told.to_tell(order(0, 1000)).size(), 0);
  size_t events = 0;
  for (int first = 1; first < 1000; ++first) events += told.to_tell(order(first, 1000)).size();
  EXPECT_LT(events, 1000 * 20) << "a thousand jobs are not told of each end";
  EXPECT_GT(events, 1000 * 5);
}

TEST(ReporterTest, TheNewestHundredPreviewsAreKept) {
  TemporaryFiles files;
  queue::SqliteTable table(files.path / "tachyscope.db");
  queue::EventBook book(files.path);
  const queue::JobFolder folder(files.path, put(table, files.path, {}));
  const std::string id = folder.path.filename().string();
  Reporter reporter(table, book, "local");
  for (int number = 1; number <= 104; ++number) {
    reporter.preview(id, {.rgb = std::vector<uint8_t>(16 * 16 * 3),
                          .width = 16,
                          .height = 16,
                          .number = number,
                          .folder = folder});
    reporter.finish(id);
  }
  for (int number = 1; number <= 104; ++number)
    EXPECT_EQ(fs::exists(folder.preview(number)), number > 4) << number;
  EXPECT_EQ(book.since(id, 0).size(), 104u) << "the events stay";
  EXPECT_EQ(last_preview_of(folder), 104) << "a run that goes on counts on";
}

TEST(JobErrorTest, CodesAndNoPaths) {
  const queue::JobFolder folder("/srv/files", "video_1");
  const ServedModel model{.name = "wan", .path = "/models/wan"};
  const auto error =
      job_error(ErrorCode::io, "/srv/files/jobs/video_1/video.mp4: cannot write: No space left on device",
                folder, &model, "/l");
  EXPECT_EQ(error.code, "disk_full");
  EXPECT_EQ(error.message, "video.mp4: cannot write: No space left on device");
  EXPECT_EQ(job_error(ErrorCode::not_found, "/models/clip and /l/style, /srv/files/x", folder, &model, "/l")
                .message,
            "clip and style, x");
  EXPECT_EQ(job_error(ErrorCode::numerical, "NaN", folder, nullptr, "/l").code, "nan");
  EXPECT_EQ(job_error(ErrorCode::corrupt, "/models/wan/vae: cut", folder, &model, "/l").message,
            "wan/vae: cut");
  EXPECT_EQ(job_error(ErrorCode::out_of_memory, "", folder, nullptr, "/l").code, "out_of_memory");
}

// Two jobs report at the same time. The one that begins another stage is told before the one whose progress
// in a stage waits its turn, though that one was told of earlier. On a machine that is held up it takes more
// than one try.
TEST(ReporterTest, AStageThatBeginsDoesNotWait) {
  const TemporaryFiles files;
  queue::SqliteTable table(files.path / "tachyscope.db");
  queue::EventBook book(files.path);
  Reporter reporter(table, book, "test");
  const auto told = [&](const std::string& id) { return book.since(id, 0).size(); };
  const auto wait = [&](const std::string& id, size_t count) {
    for (int i = 0; i < 30'000 && told(id) < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return told(id);
  };
  bool before = false;
  for (int i = 0; i < 20 && !before; ++i) {
    const std::string within = put(table, files.path, {}), begins = put(table, files.path, {});
    reporter.progress(within, {.stage = "text", .done = 0, .total = 2});
    ASSERT_EQ(wait(within, 1), 1u);
    reporter.progress(begins, {.stage = "text", .done = 0, .total = 2});
    ASSERT_EQ(wait(begins, 1), 1u);
    reporter.progress(within, {.stage = "text", .done = 1, .total = 2});
    reporter.progress(begins, {.stage = "denoise", .done = 0, .total = 4});
    ASSERT_EQ(wait(begins, 2), 2u);
    before = told(within) == 1;
    ASSERT_EQ(wait(within, 2), 2u) << "what waits is told in the end";
  }
  EXPECT_TRUE(before);
}

}  // namespace
}  // namespace tachy
