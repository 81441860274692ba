// Where the time of a video that is made block by block goes: what a profile (base/run_profiler.h) tells of each block, by
// component, with mean, median and P95 over the blocks.
//
// A component is what a user can name: attention (of the video's own tokens and of its context, with their projections), norm (with
// modulation, residuals and rope, which run in one pass with it), feed-forward, actions (Matrix-Game 2's module), cache (keys and
// values into their rings, sinks), decode (the VAE), copy (frames to the host and to who takes them), encode (of text, of the picture
// that a session begins with, of the video file, which is made beside the blocks), other (embedding, head, sampler, noise, and on a
// GPU what it waits for).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/run_profiler.h"

namespace tachy {

enum class BlockPart { attention, norm, feed_forward, actions, cache, decode, copy, encode, other };
inline constexpr int kBlockParts = 9;
const char* block_part_name(BlockPart part);  // "attention", "feed-forward", …

struct BlockTime {
  int64_t first = 0;  // its first latent frame
  double whole_us = 0;
  double first_frame_us = 0;  // until its first frame was on the host; 0: none left
  std::array<double, kBlockParts> parts_us{};
};

// Of all blocks that a profile holds whole; `device`: by the GPU's clock.
std::vector<BlockTime> block_times(const std::vector<ProfileEvent>& events, bool device = false);

// Of `times` (not empty), microseconds.
struct TimeSummary {
  double mean = 0, median = 0, p95 = 0;
};
TimeSummary summarise_times(std::vector<double> times);

// A component over a profile's blocks, by the GPU's clock (`device`) where it has one; first the whole block.
struct BlockRow {
  std::string name;
  int64_t blocks = 0;
  bool device = false;
  TimeSummary us;
  double share = 0;  // of a block's mean
};
std::vector<BlockRow> block_rows(const std::vector<ProfileEvent>& events);  // empty where it holds no block
std::string block_table(const std::vector<ProfileEvent>& events);           // for people; "" without blocks
std::string block_json(const std::vector<ProfileEvent>& events);            // a list

}  // namespace tachy
