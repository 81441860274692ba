#include "jobs/job_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/disk.h"
#include "base/json_text.h"
#include "base/log.h"
#include "jobs/job_start.h"
#include "jobs/output_name.h"
#include "jobs/sidecar.h"

namespace tachy::jobs {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kState = ".resume";

// Reads the digits of a name at `at` and moves `at` past them; returns nothing if there are none.
std::optional<uint64_t> number_at(const std::string& name, size_t& at) {
  uint64_t value = 0;
  const char* const begin = name.data() + at;
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), value);
  if (error != std::errc()) return std::nullopt;
  at += static_cast<size_t>(end - begin);
  return value;
}

// Returns the N of all STEM_N.mp4 and STEM_N.mp4.resume in the folder, in order; 1 stands for STEM itself.
std::set<int> numbers_there(const fs::path& first, const std::string& ending) {
  std::set<int> out;
  std::error_code ec;
  const std::string stem = first.stem().string(), last = first.extension().string() + ending;
  for (const fs::path& path : list_folder(first.has_parent_path() ? first.parent_path() : ".", ec)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(stem) || !name.ends_with(last) || name.size() < stem.size() + last.size()) continue;
    size_t at = stem.size();
    if (at + last.size() == name.size()) out.insert(1);
    if (name[at] != '_') continue;
    const auto n = number_at(name, ++at);
    if (n && *n >= 2 && *n < 1000000 && at + last.size() == name.size() && name[stem.size() + 1] != '0')
      out.insert(static_cast<int>(*n));
  }
  return out;
}

bool is_finished(const fs::path& output, const json& settings) {
  const json there = finished_settings(output);
  const auto encoding = [](const json& j) { return j.value("encoding", json()); };
  return !there.is_null() && difference(there, settings).empty() && encoding(there) == encoding(settings);
}

class Starting {
 public:
  Starting(const JobSpec& job, const json& settings, const std::function<std::string()>& model,
           const std::set<fs::path>& made, const std::atomic<bool>* cancel)
      : job_(job), settings_(settings), model_(model), made_(made), cancel_(cancel) {}

  JobStart named() {
    JobStart start = with(naming("`output`", [&] { return ClaimedOutput(job_.output, job_.streamed); }));
    if (!job_.resume) return begin_anew(std::move(start));
    start.earlier = start.state->load();
    if (!start.earlier && is_finished(start.output.path(), settings_)) start.complete = true;
    if (!start.earlier && !start.complete) start.state->refuse_others();
    return start;
  }

  JobStart unnamed() {
    if (job_.resume) {
      if (std::optional<JobStart> start = interrupted()) return std::move(*start);
      for (const int n : numbers_there(job_.output, "")) {
        const fs::path name = nth_name(job_.output, n);
        if (made_.contains(name) || !is_finished(name, settings_)) continue;
        if (std::optional<ClaimedOutput> claimed = ClaimedOutput::attempt(name)) {
          JobStart start = with(std::move(*claimed));
          start.complete = true;
          return start;
        }
      }
    }
    JobStart start = with(ClaimedOutput::next_free(job_.output));
    if (start.output.path() != job_.output && !job_.resume) say_what_is_left();
    return begin_anew(std::move(start));
  }

 private:
  JobStart with(ClaimedOutput output) const {
    JobStart start{.output = std::move(output), .state = nullptr, .earlier = {}};
    start.state =
        std::make_unique<StateFile>(start.output.path(), settings_, job_.state_every, model_, cancel_);
    return start;
  }

  JobStart begin_anew(JobStart start) const {
    if (job_.output == "-") return start;
    start.state->refuse_others();
    if (!job_.resume && start.state->exists())
      warn(
          "{} belongs to an interrupted run, which `resume` would continue; this run starts from the "
          "beginning",
          start.state->path().string());
    return start;
  }

  // Returns the first name that has a state of this very job and that no running process has claimed.
  std::optional<JobStart> interrupted() {
    for (const int n : numbers_there(job_.output, kState)) {
      std::optional<ClaimedOutput> claimed = ClaimedOutput::attempt(nth_name(job_.output, n));
      if (!claimed) continue;
      JobStart start = with(std::move(*claimed));
      try {
        start.earlier = start.state->load();
        if (start.earlier) return start;
      } catch (const Error& e) {
        if (e.code() == ErrorCode::out_of_memory) throw;
        warn("passed over: {}", e.message());
      }
    }
    return std::nullopt;
  }

  void say_what_is_left() const {
    for (const int n : numbers_there(job_.output, kState))
      warn("{} belongs to an interrupted run, which `resume` would continue; this run takes another name",
           nth_name(job_.output, n).string() + kState);
  }

  const JobSpec& job_;
  const json& settings_;
  const std::function<std::string()>& model_;
  const std::set<fs::path>& made_;
  const std::atomic<bool>* cancel_;
};

void tell_how_it_begins(const JobSpec& job, const JobStart& start, JobSink& sink) {
  const std::string output = start.output.path().string(), state = start.state->path().string();
  if (start.complete)
    return sink.event({{"event", "complete"}, {"output", output}}, output + " is complete already");
  if (!job.resume) return;
  const std::optional<RunState>& earlier = start.earlier;
  json event = {{"event", "resume"}, {"step", earlier ? earlier->step : 0}, {"output", output}};
  if (earlier && earlier->windows > 1)
    event["window"] = earlier->window + 1, event["windows"] = earlier->windows;
  sink.event(event, earlier ? fmt::format("continuing after {} ({})", start.state->saved(), state)
                            : fmt::format("nothing to resume at {}: starting from the beginning", state));
}

// Returns the settings in a state, or beside a finished video; null if there are none.
json settings_of_state(const fs::path& state) {
  std::error_code ec;
  if (!fs::is_regular_file(state, ec)) return nullptr;
  try {
    return parsed_or_discarded(read_run_state(state).about["settings"]);
  } catch (const Error&) {
    return nullptr;  // resuming from it will report the error
  }
}

std::optional<uint64_t> seed_in(const json& settings, const std::string& prompt,
                                const std::set<uint64_t>& used) {
  if (!settings.is_object() || !settings.contains("prompt") || settings["prompt"] != prompt)
    return std::nullopt;
  const auto seed = settings.find("seed");
  if (seed == settings.end() || !seed->is_number_unsigned() || used.contains(seed->get<uint64_t>()))
    return std::nullopt;
  return seed->get<uint64_t>();
}

}  // namespace

JobStart JobStore::begin(const JobSpec& job, const json& settings, const std::function<std::string()>& model,
                         JobSink& sink) {
  const std::lock_guard lock(mutex_);
  sink.can_go_on("");
  Starting starting(job, settings, model, made_, cancel_);
  JobStart start = job.named ? starting.named() : starting.unnamed();
  if (start.earlier) sink.can_go_on(start.state->going_on());
  if (start.complete) start.state->remove();  // a process may have died before it removed this
  made_.insert(start.output.path());
  tell_how_it_begins(job, start, sink);
  return start;
}

std::optional<uint64_t> seed_drawn_before(const fs::path& output, const std::string& prompt,
                                          const std::set<uint64_t>& used) {
  std::vector<fs::path> outputs{output};
  if (output.empty()) {
    outputs.clear();
    std::error_code ec;
    for (fs::path path : list_folder(".", ec)) {
      const std::string name = path.filename().string(), slug = slug_of(prompt) + "-";
      if (!name.starts_with(slug)) continue;
      if (name.ends_with(std::string(".mp4") + kState)) path.replace_extension();
      if (path.extension() == ".mp4") outputs.push_back(path);
    }
  }
  for (const fs::path& each : outputs)
    if (const auto seed = seed_in(settings_of_state(beside(each, kState)), prompt, used)) return seed;
  for (const fs::path& each : outputs)
    if (const auto seed = seed_in(finished_settings(each), prompt, used)) return seed;
  return std::nullopt;
}

}  // namespace tachy::jobs
