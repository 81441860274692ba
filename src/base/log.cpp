#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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

bool g_quiet = false;

}  // namespace

bool log_enabled(std::string_view topic) {
  static const std::set<std::string, std::less<>> topics = [] {
    std::set<std::string, std::less<>> out;
    for (auto& part : split(env_string("TACHY_LOG", ""), ',')) out.insert(part);
    return out;
  }();
  return !topics.empty() && (topics.count(topic) || topics.count("debug"));
}

void log_line(std::string_view topic, std::string_view text) {
  logger().info("[{}] {}", topic, spelled(text));
}

void warn_line(std::string_view text) { say_line(fmt::format("warning: {}", text)); }

void say_line(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  if (g_quiet) return;
  std::lock_guard lock(mutex);
  if (seen.emplace(text).second) logger().info("{}", spelled(text));
}

void set_quiet(bool quiet) { g_quiet = quiet; }

}  // namespace tachy
