#include "workers/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

namespace tachy::workers {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

const Buckets kWaitBuckets = {0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400};
const Buckets kRunBuckets = {0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200};
const Buckets kStepBuckets = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const Buckets kRatioBuckets = {0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4};
constexpr size_t kLongestLabel = 120;

std::string text_of(const nlohmann::json& event, const char* key) {
  const auto it = event.find(key);
  return it != event.end() && it->is_string() ? it->get<std::string>() : "";
}

std::optional<double> number_of(const nlohmann::json& event, const char* key) {
  const auto it = event.find(key);
  if (it == event.end() || !it->is_number()) return std::nullopt;
  const double number = it->get<double>();
  if (!std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

}  // namespace

// Values of labels: the first ones are told apart, and further ones are "other".
class LabelWords {
 public:
  explicit LabelWords(size_t most) : most_(most) {}
  bool knows(const std::string& word) {
    if (seen_.contains(word)) return true;
    return word.size() <= kLongestLabel && seen_.size() < most_ && seen_.insert(word).second;
  }
  std::string of(const std::string& word) { return knows(word) ? word : "other"; }

 private:
  size_t most_;
  std::set<std::string> seen_;
};

struct Metrics::State {
  Family<Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  // Returns the labels of the event's model and size.
  Labels shape_of(const nlohmann::json& event) {
    const std::string model = text_of(event, "model"), size = text_of(event, "size");
    if (!shapes.knows(model + "\n" + size)) return {{"model", "other"}, {"size", "other"}};
    return {{"model", model}, {"size", size}};
  }
  void observe(Family<Histogram>& family, const nlohmann::json& event, const char* key, const Labels& labels,
               const Buckets& buckets) {
    if (const auto number = number_of(event, key)) family.Add(labels, buckets).Observe(*number);
  }
  void step(const nlohmann::json& event) {
    Labels labels = shape_of(event);
    labels["stage"] = stages.of(text_of(event, "stage"));
    observe(step_seconds, event, "seconds", labels, kStepBuckets);
  }
  void run(const nlohmann::json& event) {
    const Labels labels = shape_of(event);
    observe(wait_seconds, event, "wait_seconds", labels, kWaitBuckets);
    observe(run_seconds, event, "seconds", labels, kRunBuckets);
    const auto planned = number_of(event, "planned_seconds"), seen = number_of(event, "seconds");
    if (planned && seen && *planned > 0) plan_ratio.Add(labels, kRatioBuckets).Observe(*seen / *planned);
    if (const auto bytes = number_of(event, "planned_bytes")) planned_bytes.Add(labels).Set(*bytes);
    if (const auto bytes = number_of(event, "seen_bytes")) seen_bytes.Add(labels).Set(*bytes);
  }
  void end(const nlohmann::json& event) {
    const std::string code = text_of(event, "code"), cause = text_of(event, "cause");
    ended.Add({{"status", words.of(text_of(event, "status"))}, {"code", words.of(code)}}).Increment();
    if (code == "cancelled") cancelled.Add({{"cause", words.of(cause)}}).Increment();
  }

  // The counter of the latest answer. Most answers are like the one before, and to find their counter by its labels
  // takes longer than to count.
  struct Last {
    std::string route, method;
    int status;
    Counter& counter;
    bool is(std::string_view r, std::string_view m, int s) const {
      return status == s && route == r && method == m;
    }
  };

  std::mutex mutex;  // of the words and of `last`; the metrics have their own
  std::optional<Last> last;
  LabelWords shapes{kMostShapes}, stages{kMostWords}, words{kMostWords}, routes{4 * kMostWords};
  prometheus::Registry registry;
  Gauge& queued = gauges("tachyscope_jobs_queued", "Jobs that wait.").Add({});
  Gauge& running = gauges("tachyscope_jobs_running", "Jobs under way.").Add({});
  Family<Gauge>& kept = gauges("tachyscope_jobs_kept", "Jobs that have ended and are kept, by their status.");
  Family<Counter>& ended =
      counters("tachyscope_jobs_ended_total", "Jobs that have ended, by status and error.");
  Family<Counter>& cancelled =
      counters("tachyscope_jobs_cancelled_total", "Jobs that were cancelled, by cause.");
  Family<Counter>& interrupted = counters("tachyscope_jobs_interrupted_total",
                                          "Times that a job was interrupted to go on later, by cause.");
  Family<Histogram>& wait_seconds =
      histograms("tachyscope_job_wait_seconds", "From a job's creation to the beginning of its run.");
  Family<Histogram>& run_seconds = histograms("tachyscope_job_run_seconds", "How long a job's run took.");
  Family<Histogram>& plan_ratio = histograms("tachyscope_job_seconds_per_planned_second",
                                             "Seconds that a run took for each planned one.");
  Family<Histogram>& step_seconds = histograms("tachyscope_step_seconds", "How long a step of a stage took.");
  Family<Gauge>& planned_bytes =
      gauges("tachyscope_job_planned_bytes", "Memory that the latest job was planned to take.");
  Family<Gauge>& seen_bytes = gauges("tachyscope_job_seen_bytes", "Memory that the latest job took.");
  Family<Counter>& requests =
      counters("tachyscope_http_requests_total", "Answers of the HTTP server, by route, method and status.");
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::measured(const nlohmann::json& event) {
  if (!event.is_object()) return;
  const std::string what = text_of(event, "event");
  const std::lock_guard lock(state_->mutex);
  if (what == "step") state_->step(event);
  if (what == "run") state_->run(event);
  if (what == "end") state_->end(event);
  if (what == "interrupted")
    state_->interrupted.Add({{"cause", state_->words.of(text_of(event, "cause"))}}).Increment();
}

void Metrics::answered(std::string_view pattern, std::string_view method, int status) {
  static const std::set<std::string_view> kMethods = {"GET",   "HEAD",   "POST",   "PUT",
                                                      "PATCH", "DELETE", "OPTIONS"};
  const std::lock_guard lock(state_->mutex);
  const std::string_view known = kMethods.contains(method) ? method : "other";
  if (state_->last && state_->last->is(pattern, known, status)) return state_->last->counter.Increment();
  Counter& counter =
      state_->requests.Add({{"route", pattern.empty() ? "none" : state_->routes.of(std::string(pattern))},
                            {"method", std::string(known)},
                            {"code", status >= 100 && status < 600 ? std::to_string(status) : "other"}});
  state_->last.emplace(State::Last{std::string(pattern), std::string(known), status, counter});
  counter.Increment();
}

std::string Metrics::text(const queue::Counts& counts) {
  state_->queued.Set(static_cast<double>(counts.queued));
  state_->running.Set(static_cast<double>(counts.running));
  state_->kept.Add({{"status", "completed"}}).Set(static_cast<double>(counts.completed));
  state_->kept.Add({{"status", "failed"}}).Set(static_cast<double>(counts.failed));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->registry.Collect());
  return std::move(out).str();
}

}  // namespace tachy::workers
