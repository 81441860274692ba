#include "report/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "report/block_monitor.h"
#include "report/rank_profile.h"

namespace tachy {
namespace {

struct Node {
  std::string path;
  ProfileKind kind;
  std::vector<double> times;
  double inside = 0;  // time of direct children
};

double percentile(const std::vector<double>& sorted, double p) {
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Adds parents first and children in order of appearance: `order` holds paths by first appearance.
void add_rows(const std::vector<std::string>& order, const std::map<std::string, Node>& nodes,
              const std::string& parent, std::vector<ProfileRow>& rows) {
  for (const std::string& path : order) {
    const size_t slash = path.rfind('/');
    if ((slash == std::string::npos ? "" : path.substr(0, slash)) != parent) continue;
    const Node& node = nodes.at(path);
    std::vector<double> times = node.times;
    std::sort(times.begin(), times.end());
    ProfileRow row{.path = path, .kind = node.kind, .count = static_cast<int64_t>(times.size())};
    for (const double t : times) row.total_us += t;
    row.self_us = std::max(0.0, row.total_us - node.inside);
    row.mean_us = row.total_us / static_cast<double>(times.size());
    row.median_us = percentile(times, 0.5), row.p95_us = percentile(times, 0.95);
    rows.push_back(std::move(row));
    add_rows(order, nodes, path, rows);
  }
}

std::string milliseconds(double us) { return fmt::format("{:.3f}", us / 1000); }

nlohmann::json report_json(const ProfileReport& report) {
  nlohmann::json rows = nlohmann::json::array(), kinds = nlohmann::json::object();
  for (const ProfileRow& r : report.rows)
    rows.push_back({{"module", r.path},
                    {"kind", profile_kind_name(r.kind)},
                    {"calls", r.count},
                    {"total_us", r.total_us},
                    {"self_us", r.self_us},
                    {"mean_us", r.mean_us},
                    {"median_us", r.median_us},
                    {"p95_us", r.p95_us},
                    {"share", r.share}});
  for (const auto& [kind, us] : report.by_kind) kinds[profile_kind_name(kind)] = us;
  return {{"wall_us", report.wall_us}, {"modules", rows}, {"kinds_us", kinds}};
}

}  // namespace

int ProfileRow::depth() const { return static_cast<int>(std::count(path.begin(), path.end(), '/')); }
std::string ProfileRow::name() const { return path.substr(path.rfind('/') + 1); }

ProfileReport summarise(const std::vector<ProfileEvent>& all, bool device, int rank) {
  ProfileReport report;
  std::vector<ProfileEvent> events;
  std::copy_if(all.begin(), all.end(), std::back_inserter(events),
               [&](const ProfileEvent& e) { return on_device(e) == device && rank_of(e) == rank; });
  if (events.empty()) return report;
  std::map<std::string, Node> nodes;
  std::vector<std::string> order;
  struct Open {
    std::string path;
    double end;
  };
  std::vector<Open> open;
  int lane = -1;
  double first = events[0].start_us, last = events[0].end_us;
  for (const ProfileEvent& e : events) {
    if (e.lane != lane) open.clear(), lane = e.lane;
    // Ranges of a thread nest, so one that began after another's end lies outside it.
    while (!open.empty() && open.back().end <= e.start_us) open.pop_back();
    const std::string path = open.empty() ? e.name : open.back().path + "/" + e.name;
    const double duration = e.end_us - e.start_us;
    if (!open.empty()) nodes.at(open.back().path).inside += duration;
    const auto [it, added] = nodes.try_emplace(path, Node{path, e.kind, {}, 0});
    if (added) order.push_back(path);
    it->second.times.push_back(duration);
    open.push_back({path, e.end_us});
    first = std::min(first, e.start_us), last = std::max(last, e.end_us);
  }
  report.wall_us = last - first;
  add_rows(order, nodes, "", report.rows);
  std::map<ProfileKind, double> kinds;
  for (ProfileRow& row : report.rows) {
    row.share = report.wall_us > 0 ? row.total_us / report.wall_us : 0;
    kinds[row.kind] += row.self_us;
  }
  report.by_kind.assign(kinds.begin(), kinds.end());
  std::sort(report.by_kind.begin(), report.by_kind.end(),
            [](auto& a, auto& b) { return a.second > b.second; });
  return report;
}

std::string profile_table(const ProfileReport& report) {
  std::string out = fmt::format("{:<46}{:>7}{:>12}{:>10}{:>10}{:>10}{:>8}\n", "module", "calls", "total ms",
                                "mean", "median", "P95", "share");
  for (const ProfileRow& row : report.rows)
    out += fmt::format("{:<46}{:>7}{:>12}{:>10}{:>10}{:>10}{:>7.1f}%\n",
                       std::string(static_cast<size_t>(2 * row.depth()), ' ') + row.name(), row.count,
                       milliseconds(row.total_us), milliseconds(row.mean_us), milliseconds(row.median_us),
                       milliseconds(row.p95_us), 100 * row.share);
  out += "by kind of work:";
  for (const auto& [kind, us] : report.by_kind)
    out += fmt::format(" {} {:.1f}%", kind == ProfileKind::group ? "between" : profile_kind_name(kind),
                       report.wall_us > 0 ? 100 * us / report.wall_us : 0);
  return out + fmt::format("; in all {} ms\n", milliseconds(report.wall_us));
}

std::string profile_tables(const std::vector<ProfileEvent>& events) {
  const ProfileReport device = summarise(events, true);
  const std::string host = profile_table(summarise(events)),
                    blocks = rank_table(events) + block_table(events);
  if (device.rows.empty()) return host + blocks;
  return blocks + "on the GPU, by CUDA events (the steps ran without CUDA graphs, launch by launch):\n" +
         profile_table(device) + "\non the host (most of it queues work for the GPU):\n" + host;
}

std::string profile_json(const ProfileReport& report, const ProfileReport& device) {
  nlohmann::json out = report_json(report);
  out["event"] = "profile";
  if (!device.rows.empty()) {
    out["device"] = report_json(device);
    out["device"]["graphs"] = false;
  }
  return json_line(out);
}

std::string chrome_trace(const std::vector<ProfileEvent>& events) {
  // The host is process 1, the GPUs are process 2.
  nlohmann::json list = nlohmann::json::array();
  const auto name = [&](const char* what, int process, int lane, const std::string& text) {
    nlohmann::json entry = {{"ph", "M"}, {"pid", process}, {"name", what}, {"args", {{"name", text}}}};
    if (lane >= 0) entry["tid"] = lane;
    list.push_back(std::move(entry));
  };
  std::set<std::pair<int, int>> lanes;
  for (const ProfileEvent& e : events) lanes.insert({on_device(e) ? 2 : 1, e.lane});
  name("process_name", 1, -1, "tachyscope");
  if (!lanes.empty() && lanes.rbegin()->first == 2) name("process_name", 2, -1, "GPU (CUDA events)");
  for (const auto& [process, lane] : lanes)
    name("thread_name", process, lane,
         process == 2        ? fmt::format("GPU {}", (lane - kDeviceLane) % kMostGpus)
         : lane == 0         ? "main"
         : lane >= kRankLane ? fmt::format("rank {}", lane - kRankLane)
                             : fmt::format("thread {}", lane));
  for (const ProfileEvent& e : events)
    list.push_back({{"ph", "X"},
                    {"pid", on_device(e) ? 2 : 1},
                    {"tid", e.lane},
                    {"name", e.index < 0 ? e.name : fmt::format("{} {}", e.name, e.index)},
                    {"cat", profile_kind_name(e.kind)},
                    {"ts", e.start_us},
                    {"dur", e.end_us - e.start_us}});
  return json_line(nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", list}}) + "\n";
}

}  // namespace tachy
