#include "report/block_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "denoise/causal_denoiser.h"

namespace tachy {
namespace {

// Returns the component that a range belongs to, according to its name, its kind and the range around it. The
// names are those in the models' code.
BlockPart part_of(const ProfileEvent& e, BlockPart around) {
  const std::string_view name = e.name;
  if (around == BlockPart::decode) return e.kind == ProfileKind::output ? BlockPart::copy : around;
  if (around == BlockPart::encode) return around;
  if (name == "decode") return BlockPart::decode;
  if (name == "text encoder" || name == "image encoder" || name.starts_with("encode "))
    return BlockPart::encode;
  if (e.kind == ProfileKind::cache) return BlockPart::cache;
  if (around == BlockPart::actions || name == "actions") return BlockPart::actions;
  if (e.kind == ProfileKind::norm) return BlockPart::norm;
  if (name == "self-attention" || name == "cross-attention") return BlockPart::attention;
  if (name == "feed-forward") return BlockPart::feed_forward;
  if (e.kind == ProfileKind::output) return BlockPart::copy;
  return around;
}

bool is_block(const ProfileEvent& e) { return std::strcmp(e.name, kBlockRange) == 0; }

struct Open {
  BlockPart part;
  double end_us;
};

// The nested ranges of one lane, and the block around them.
struct Lane {
  int number = -1;
  std::vector<Open> open;
  BlockTime* block = nullptr;
  double block_end_us = 0;
};

void enter(const ProfileEvent& e, Lane& lane, std::vector<BlockTime>& out) {
  if (lane.number != e.lane) lane = {.number = e.lane};
  while (!lane.open.empty() && lane.open.back().end_us <= e.start_us) lane.open.pop_back();
  if (lane.block && lane.block_end_us <= e.start_us) lane.block = nullptr;
  if (is_block(e)) {
    out.push_back({.first = e.index, .whole_us = e.end_us - e.start_us});
    lane.block = &out.back(), lane.block_end_us = e.end_us;
  }
  if (!lane.block) return;
  const BlockPart around = lane.open.empty() ? BlockPart::other : lane.open.back().part,
                  part = is_block(e) ? BlockPart::other : part_of(e, around);
  // A range's own time is the part that ranges inside it do not cover.
  lane.block->parts_us[static_cast<size_t>(part)] += e.end_us - e.start_us;
  if (!lane.open.empty()) lane.block->parts_us[static_cast<size_t>(around)] -= e.end_us - e.start_us;
  lane.open.push_back({part, e.end_us});
}

// Adds the encoding that other threads do meanwhile, and the time at which the first frame of a block was
// there, both by the host's clock.
void add_from_host(const std::vector<ProfileEvent>& events, std::vector<BlockTime>& out) {
  struct Begun {
    int64_t first;
    double start_us, end_us;
    int lane;
  };
  std::vector<Begun> blocks;
  for (const ProfileEvent& e : events)
    if (!on_device(e) && rank_of(e) == 0 && is_block(e))
      blocks.push_back({e.index, e.start_us, e.end_us, e.lane});
  if (blocks.size() != out.size()) return;
  for (const ProfileEvent& e : events) {
    if (on_device(e) || rank_of(e) > 0) continue;
    const bool frames = std::strcmp(e.name, "frames out") == 0,
               film = std::strcmp(e.name, "encode video") == 0;
    if (!frames && !film) continue;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Begun& b = blocks[i];
      if (e.start_us < b.start_us || e.start_us >= b.end_us) continue;
      if (film && e.lane != b.lane)
        out[i].parts_us[static_cast<size_t>(BlockPart::encode)] += e.end_us - e.start_us;
      if (frames && e.lane == b.lane && out[i].first_frame_us == 0)
        out[i].first_frame_us = e.start_us - b.start_us;
      break;
    }
  }
}

}  // namespace

const char* block_part_name(BlockPart part) {
  static const char* const kNames[kBlockParts] = {"attention", "norm", "feed-forward", "actions", "cache",
                                                  "decode",    "copy", "encode",       "other"};
  return kNames[static_cast<size_t>(part)];
}

std::vector<BlockTime> block_times(const std::vector<ProfileEvent>& events, bool device) {
  std::vector<BlockTime> out;
  out.reserve(events.size());  // Lane::block points into it
  Lane lane;
  for (const ProfileEvent& e : events)
    if (on_device(e) == device && rank_of(e) == 0) enter(e, lane, out);
  add_from_host(events, out);
  return out;
}

TimeSummary summarise_times(std::vector<double> times) {
  TimeSummary out;
  if (times.empty()) return out;
  std::sort(times.begin(), times.end());
  for (const double t : times) out.mean += t / static_cast<double>(times.size());
  const auto rank = [&](double p) {
    const auto at = static_cast<size_t>(std::ceil(p * static_cast<double>(times.size())));
    return times[std::clamp<size_t>(at, 1, times.size()) - 1];
  };
  out.median = rank(0.5), out.p95 = rank(0.95);
  return out;
}

std::vector<BlockRow> block_rows(const std::vector<ProfileEvent>& events) {
  std::vector<BlockTime> blocks = block_times(events, true);
  const bool device = !blocks.empty();
  if (!device) blocks = block_times(events);
  std::vector<BlockRow> out;
  double whole_us = 0;
  const auto add = [&](const char* name, const auto& of) {
    std::vector<double> times;
    for (const BlockTime& b : blocks) times.push_back(of(b));
    const TimeSummary t = summarise_times(times);
    if (t.mean <= 0) return;
    if (out.empty()) whole_us = t.mean;
    out.push_back({name, static_cast<int64_t>(blocks.size()), device, t, t.mean / whole_us});
  };
  add("block", [](const BlockTime& b) { return b.whole_us; });
  for (int i = 0; i < kBlockParts; ++i)
    add(block_part_name(static_cast<BlockPart>(i)),
        [i](const BlockTime& b) { return b.parts_us[static_cast<size_t>(i)]; });
  add("first frame", [](const BlockTime& b) { return b.first_frame_us; });
  return out;
}

std::string block_table(const std::vector<ProfileEvent>& events) {
  const std::vector<BlockRow> rows = block_rows(events);
  if (rows.empty()) return "";
  const std::string head =
      fmt::format("{} blocks{}", rows[0].blocks, rows[0].device ? ", by the GPU's clock" : "");
  std::string out = fmt::format("{:<34}{:>10}{:>10}{:>10}{:>8}\n", head, "mean ms", "median", "P95", "share");
  for (const BlockRow& r : rows)
    out += fmt::format("{:<34}{:>10.3f}{:>10.3f}{:>10.3f}{:>7.1f}%\n", "  " + r.name, r.us.mean / 1000,
                       r.us.median / 1000, r.us.p95 / 1000, 100 * r.share);
  return out + "first frame: from a block's begin until it is on the host; encode runs beside the blocks\n";
}

std::string block_json(const std::vector<ProfileEvent>& events) {
  nlohmann::json out = nlohmann::json::array();
  for (const BlockRow& r : block_rows(events))
    out.push_back({{"component", r.name},
                   {"blocks", r.blocks},
                   {"device", r.device},
                   {"mean_us", r.us.mean},
                   {"median_us", r.us.median},
                   {"p95_us", r.us.p95},
                   {"share", r.share}});
  return json_line(out);
}

}  // namespace tachy
