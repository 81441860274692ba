#include "http/router.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "http/uri.h"

namespace tachy::http {
namespace {

bool is_capture(std::string_view part) {
  return part.size() > 2 && part.front() == '{' && part.back() == '}';
}

// Returns what stands for the pattern's captures, or nothing if the path does not fit. A capture is never
// empty.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pattern,
                                              const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::vector<std::string> captures;
  for (size_t i = 0; i < path.size(); ++i) {
    if (!is_capture(pattern[i])) {
      if (pattern[i] != path[i]) return std::nullopt;
    } else if (path[i].empty()) {
      return std::nullopt;
    } else {
      captures.push_back(path[i]);
    }
  }
  return captures;
}

size_t count_captures(const std::vector<std::string>& pattern) {
  return static_cast<size_t>(std::count_if(pattern.begin(), pattern.end(), is_capture));
}

}  // namespace

void Router::add(Route route) {
  auto parts = path_parts(route.pattern);
  check(parts.has_value(), ErrorCode::internal, "router: no pattern: {}", route.pattern);
  for (size_t i = 0; i < routes_.size(); ++i)
    check(routes_[i]->method != route.method || routes_[i]->pattern != route.pattern, ErrorCode::internal,
          "router: {} {} is there twice", route.method, route.pattern);
  routes_.push_back(std::make_shared<const Route>(std::move(route)));
  patterns_.push_back(std::move(*parts));
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  Found found;
  const auto parts = path_parts(path);
  if (!parts) return found;
  // A pattern with fewer captures goes first: "/v1/videos/plan" is not the video "plan".
  std::vector<std::pair<size_t, std::vector<std::string>>> fitting;
  size_t fewest = static_cast<size_t>(-1);
  for (size_t i = 0; i < routes_.size(); ++i)
    if (auto captures = match(patterns_[i], *parts)) {
      fewest = std::min(fewest, count_captures(patterns_[i]));
      fitting.emplace_back(i, std::move(*captures));
    }
  for (auto& [i, captures] : fitting) {
    if (count_captures(patterns_[i]) != fewest) continue;
    const Route& route = *routes_[i];
    const bool exact = route.method == method;
    if (exact || (!found.route && method == "HEAD" && route.method == "GET")) {
      found.route = &route;
      found.captures = std::move(captures);
    } else {
      found.other_methods.push_back(route.method);
    }
  }
  if (found.route) found.other_methods.clear();
  return found;
}

}  // namespace tachy::http
