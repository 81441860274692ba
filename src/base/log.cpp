#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "base/env.h"
#include "base/field.h"
#include "base/notice.h"

namespace tachy {
namespace {

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = spdlog::stderr_logger_mt("tachyscope");
    made->set_pattern("tachyscope: %v");
    return made;
  }();
  return *instance;
}

using Topics = std::set<std::string, std::less<>>;

const Topics& topics() {
  static const Topics topics = [] {
    Topics out;
    for (auto& part : split(env_string("TACHY_LOG", ""), ',')) out.insert(part);
    return out;
  }();
  return topics;
}

bool g_quiet = false;
thread_local LineScope* t_scope = nullptr;

}  // namespace

bool log_enabled(std::string_view topic) {
  return !topics().empty() && (topics().count(topic) || topics().count("debug"));
}

void check_log_topics() {
  static const Choices known = {"dispatch", "plan", "load", "debug", "frames", "graph", "media", "ranks"};
  for (const std::string& topic : topics())
    require(std::ranges::find(known, topic) != known.end(), "TACHY_LOG: expected {}, got '{}'",
            text_of(known), topic);
}

void log_line(std::string_view topic, std::string_view text) {
  logger().info("[{}] {}", topic, spelled(text));
}

void warn_line(std::string_view text) { say_line(fmt::format("warning: {}", text)); }

void say_line(std::string_view text) {
  if (t_scope) return t_scope->told(text);
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  if (g_quiet) return;
  std::lock_guard lock(mutex);
  if (seen.emplace(text).second) logger().info("{}", spelled(text));
}

bool lines_are_taken() { return t_scope != nullptr; }

LineScope::LineScope(std::function<void(std::string_view)> take) : take_(std::move(take)), around_(t_scope) {
  t_scope = this;
}
LineScope::~LineScope() { t_scope = around_; }

void LineScope::told(std::string_view text) {
  if (!seen_.emplace(text).second) return;
  t_scope = around_;
  try {
    take_(text);
  } catch (...) {
    t_scope = this;
    throw;
  }
  t_scope = this;
}

void set_quiet(bool quiet) { g_quiet = quiet; }

}  // namespace tachy
