#include "report/rank_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "report/profile_report.h"

namespace tachy {
namespace {

constexpr const char* kStages[] = {"transformer", "decode"};
constexpr const char* kBetween = "between";

// Returns the path inside the stage, "" for the stage itself, or nothing if the path is not in it.
std::optional<std::string> inside(const std::string& path, const std::string& stage) {
  const std::string all = "/" + path + "/", wanted = "/" + stage + "/";
  const size_t at = all.find(wanted);
  if (at == std::string::npos) return std::nullopt;
  std::string rest = all.substr(at + wanted.size());
  if (!rest.empty()) rest.pop_back();
  if (rest.starts_with("block/")) rest.erase(0, 6);
  return rest;
}

// Returns when a rank's second pass began, and how many followed the first one; a single pass is taken as it is.
struct Passes {
  double from_us = 0;
  int64_t count = 1;
};
Passes later_passes(const std::vector<ProfileEvent>& events, const char* stage) {
  std::vector<double> starts;
  for (const ProfileEvent& e : events)
    if (std::strcmp(e.name, stage) == 0) starts.push_back(e.start_us);
  std::ranges::sort(starts);
  if (starts.size() < 2) return {};
  return {starts[1], static_cast<int64_t>(starts.size()) - 1};
}

RankProfile profile_of(const std::vector<ProfileEvent>& events, const char* stage, int rank, bool device) {
  std::vector<ProfileEvent> mine;
  for (const ProfileEvent& e : events)
    if (rank_of(e) == rank && on_device(e) == device) mine.push_back(e);
  const Passes passes = later_passes(mine, stage);
  std::erase_if(mine, [&](const ProfileEvent& e) { return e.start_us < passes.from_us; });
  RankProfile out{.stage = stage, .rank = rank, .passes = passes.count};
  for (const ProfileRow& row : summarise(mine, device, rank).rows) {
    const auto path = inside(row.path, stage);
    if (!path) continue;
    const auto each = [&](double us) { return us / static_cast<double>(passes.count); };
    if (path->empty()) out.whole_us += each(row.total_us);
    const std::string name = row.kind == ProfileKind::group ? kBetween : *path;
    const auto known = std::ranges::find(out.parts, name, &RankPart::name);
    RankPart& part = known != out.parts.end() ? *known : out.parts.emplace_back(name, row.kind);
    part.calls += row.count, part.us += each(row.self_us);
  }
  return out;
}

std::string ms(double us) { return fmt::format("{:>12.3f}", us / 1000); }

}  // namespace

std::vector<RankProfile> rank_profiles(const std::vector<ProfileEvent>& events) {
  int ranks = 1;
  bool device = false;
  for (const ProfileEvent& e : events)
    ranks = std::max(ranks, rank_of(e) + 1), device = device || on_device(e);
  std::vector<RankProfile> out;
  for (const char* stage : kStages)
    for (int rank = 0; rank < ranks; ++rank)
      if (RankProfile p = profile_of(events, stage, rank, device); !p.parts.empty())
        out.push_back(std::move(p));
  return out;
}

std::string rank_table(const std::vector<ProfileEvent>& events) {
  const std::vector<RankProfile> all = rank_profiles(events);
  std::string out;
  for (const char* stage : kStages) {
    std::vector<const RankProfile*> ranks;
    std::vector<std::string> names;
    for (const RankProfile& p : all) {
      if (p.stage != stage) continue;
      ranks.push_back(&p);
      for (const RankPart& part : p.parts)
        if (std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
    }
    if (ranks.size() < 2) continue;
    out += fmt::format("{:<46}", fmt::format("{}, ms a pass but the first", stage));
    for (const RankProfile* p : ranks) out += fmt::format("{:>12}", fmt::format("rank {}", p->rank));
    out += "\n";
    for (const std::string& name : names) {
      out += fmt::format("  {:<44}", name);
      for (const RankProfile* p : ranks) {
        const auto part = std::ranges::find(p->parts, name, &RankPart::name);
        out += ms(part == p->parts.end() ? 0 : part->us);
      }
      out += "\n";
    }
    out += fmt::format("  {:<44}", "in all");
    for (const RankProfile* p : ranks) out += ms(p->whole_us);
    out += "\n";
  }
  return out;
}

std::string rank_json(const std::vector<ProfileEvent>& events) {
  nlohmann::json out = nlohmann::json::array();
  for (const RankProfile& p : rank_profiles(events)) {
    nlohmann::json parts = nlohmann::json::array();
    for (const RankPart& part : p.parts)
      parts.push_back({{"part", part.name},
                       {"kind", profile_kind_name(part.kind)},
                       {"calls", part.calls},
                       {"us", part.us}});
    out.push_back({{"stage", p.stage},
                   {"rank", p.rank},
                   {"passes", p.passes},
                   {"whole_us", p.whole_us},
                   {"parts", parts}});
  }
  return json_line(out);
}

}  // namespace tachy
