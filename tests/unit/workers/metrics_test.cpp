// Tests the text that Prometheus reads: every metric that is promised, and that labels stay few.
#include "workers/metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

namespace tachy::workers {
namespace {

using testing::HasSubstr;
using testing::Not;

// The series of a metric, without its comments.
std::vector<std::string> series(const std::string& text, const std::string& name) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + "{") || line.starts_with(name + " ")) found.push_back(line);
  return found;
}

nlohmann::json step(const std::string& model, const std::string& size, double seconds) {
  return {{"event", "step"}, {"model", model}, {"size", size}, {"stage", "denoise"}, {"seconds", seconds}};
}

TEST(Metrics, CountJobsAndTimes) {
  Metrics metrics;
  metrics.measured(step("wan", "832x480", 0.25));
  metrics.measured(step("wan", "832x480", 50));
  metrics.measured({{"event", "run"},
                    {"model", "wan"},
                    {"size", "832x480"},
                    {"wait_seconds", 2.5},
                    {"seconds", 40},
                    {"planned_seconds", 32},
                    {"planned_bytes", 1000},
                    {"seen_bytes", 900}});
  for (const char* cause : {"caller", "caller", "deleted"})
    metrics.measured({{"event", "end"}, {"status", "failed"}, {"code", "cancelled"}, {"cause", cause}});
  metrics.measured({{"event", "end"}, {"status", "completed"}, {"code", ""}, {"cause", ""}});
  metrics.measured({{"event", "interrupted"}, {"cause", "world"}});
  const std::string text = metrics.text({.queued = 3, .running = 1, .completed = 7, .failed = 2});
  for (const char* line : {
           "tachyscope_jobs_queued 3",
           "tachyscope_jobs_running 1",
           "tachyscope_jobs_kept{status=\"completed\"} 7",
           "tachyscope_job_wait_seconds_sum{model=\"wan\",size=\"832x480\"} 2.5",
           "tachyscope_job_run_seconds_bucket{model=\"wan\",size=\"832x480\",le=\"30\"} 0",
           "tachyscope_job_run_seconds_bucket{model=\"wan\",size=\"832x480\",le=\"60\"} 1",
           "tachyscope_job_seconds_per_planned_second_sum{model=\"wan\",size=\"832x480\"} 1.25",
           "tachyscope_job_planned_bytes{model=\"wan\",size=\"832x480\"} 1000",
           "tachyscope_job_seen_bytes{model=\"wan\",size=\"832x480\"} 900",
           "tachyscope_jobs_cancelled_total{cause=\"caller\"} 2",
           "tachyscope_jobs_cancelled_total{cause=\"deleted\"} 1",
           "tachyscope_jobs_ended_total{code=\"cancelled\",status=\"failed\"} 3",
           "tachyscope_jobs_interrupted_total{cause=\"world\"} 1",
           "# TYPE tachyscope_step_seconds histogram",
       })
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(series(text, "tachyscope_step_seconds_count"), testing::SizeIs(1));
  EXPECT_TRUE(series(text, "tachyscope_step_seconds_count")[0].ends_with(" 2"));
}

TEST(Metrics, CountAnswersByRoute) {
  Metrics metrics;
  metrics.answered("/v1/videos/{id}", "GET", 200);
  metrics.answered("/v1/videos/{id}", "GET", 200);
  metrics.answered("", "BREW", 404);
  metrics.answered("/v1/videos", "POST", 7);
  const std::string text = metrics.text({});
  EXPECT_THAT(text, HasSubstr("{code=\"200\",method=\"GET\",route=\"/v1/videos/{id}\"} 2"));
  EXPECT_THAT(text, HasSubstr("{code=\"404\",method=\"other\",route=\"none\"} 1"));
  EXPECT_THAT(text, HasSubstr("{code=\"other\",method=\"POST\",route=\"/v1/videos\"} 1"));
}

TEST(Metrics, KeepFewSeriesWhateverComes) {
  Metrics metrics;
  for (int i = 0; i < 1000; ++i) {
    metrics.measured(step("wan", std::to_string(i) + "x16", 1));
    metrics.measured({{"event", "end"}, {"status", "failed"}, {"code", "code" + std::to_string(i)}});
    metrics.answered("/route" + std::to_string(i), "GET", i);
  }
  metrics.measured(step(std::string(100'000, 'm'), "1x1", 1));
  const std::string text = metrics.text({});
  const auto steps = series(text, "tachyscope_step_seconds_count");
  EXPECT_EQ(steps.size(), Metrics::kMostShapes + 1);
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                          [](const std::string& line) {
                            return line.find("size=\"other\"") != line.npos &&
                                   line.ends_with(" " + std::to_string(1001 - Metrics::kMostShapes));
                          }),
            1);
  EXPECT_LE(series(text, "tachyscope_jobs_ended_total").size(), Metrics::kMostWords + 1);
  EXPECT_LT(text.size(), 200'000u);
}

TEST(Metrics, AreAWellFormedText) {
  Metrics metrics;
  metrics.measured(step("a \"b\"\\\n{c}", "1x1", 1));
  for (const nlohmann::json& odd : {nlohmann::json(), nlohmann::json::array(), nlohmann::json{{"event", 7}},
                                    nlohmann::json{{"event", "step"}, {"seconds", "x"}},
                                    nlohmann::json{{"event", "step"}, {"seconds", -1}},
                                    nlohmann::json{{"event", "run"}, {"planned_seconds", 0}, {"seconds", 1}}})
    metrics.measured(odd);
  const std::string text = metrics.text({});
  const std::regex sample(R"re([a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)*\})? [0-9.e+\-]+(Inf)?)re");
  std::istringstream lines(text);
  int samples = 0;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("# HELP ") && !line.starts_with("# TYPE ")) {
      EXPECT_TRUE(std::regex_match(line, sample)) << line;
      ++samples;
    }
  EXPECT_GT(samples, 10);
  EXPECT_THAT(text, HasSubstr(R"(model="a \"b\"\\\n{c}")"));
  EXPECT_THAT(text, Not(HasSubstr("tachyscope_job_seconds_per_planned_second_count")));
}

TEST(Metrics, ComeFromManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.measured(step("wan", std::to_string(i % 60), 1));
        metrics.answered("/v1/videos", "GET", 200);
        if (i % 100 == 0) metrics.text({});
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(metrics.text({}), HasSubstr("route=\"/v1/videos\"} 2000"));
}

}  // namespace
}  // namespace tachy::workers
