// Logging to stderr through spdlog, and the TACHY_LOG switch.
//
// TACHY_LOG is a comma-separated list of topics: "dispatch" prints each op's choice once, "plan" prints the
// memory plan, "load" prints the files that are opened; "frames", "graph", "media" and "ranks" tell of the
// encoder's queue, of GPU graphs, of FFmpeg and of ranks, and "debug" stands for all. Warnings are always
// printed, but each text only once.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tachy {

// Says whether TACHY_LOG switches a topic on. It is cheap after the first call.
bool log_enabled(std::string_view topic);

// Throws invalid_argument if TACHY_LOG names an unknown topic.
void check_log_topics();

void log_line(std::string_view topic, std::string_view text);
void warn_line(std::string_view text);  // prints each distinct text once
void set_quiet(bool quiet);             // drops warnings (tests, --quiet)

template <class... Args>
void log_topic(std::string_view topic, fmt::format_string<Args...> f, Args&&... args) {
  if (log_enabled(topic)) log_line(topic, fmt::format(f, std::forward<Args>(args)...));
}

template <class... Args>
void warn(fmt::format_string<Args...> f, Args&&... args) {
  warn_line(fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace tachy
