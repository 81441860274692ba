// Shows where the time goes while a video is made block by block: the part of each component in each block of
// a profile (base/run_profiler.h), with mean, median and P95 over the blocks.
//
// A component is something that a user knows by name: attention (of the video's own tokens and of its
// context, with their projections), norm (with modulation, residuals and rope, which run in one pass with
// it), feed-forward, actions (Matrix-Game 2's module), cache (keys and values into their rings, sinks),
// decode (the VAE), copy (frames to the host and to their receiver), encode (of text, of the picture that a
// session begins with, and of the video file, which is made beside the blocks), other (embedding, head,
// sampler, noise, and waiting on a GPU).
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
  double first_frame_us = 0;  // time until its first frame was on the host; 0: no frame was handed out
  std::array<double, kBlockParts> parts_us{};
};

// Returns the times of all blocks that a profile holds completely; with `device` the GPU's clock measured
// them.
std::vector<BlockTime> block_times(const std::vector<ProfileEvent>& events, bool device = false);

// Statistics of `times` (not empty), in microseconds.
struct TimeSummary {
  double mean = 0, median = 0, p95 = 0;
};
TimeSummary summarise_times(std::vector<double> times);

// One component over all blocks of a profile, by the GPU's clock (`device`) if it has one; the first row is
// the whole block.
struct BlockRow {
  std::string name;
  int64_t blocks = 0;
  bool device = false;
  TimeSummary us;
  double share = 0;  // share of a block's mean time
};
// Returns nothing if the profile holds no block.
std::vector<BlockRow> block_rows(const std::vector<ProfileEvent>& events);
std::string block_table(const std::vector<ProfileEvent>& events);  // for people; "" without blocks
std::string block_json(const std::vector<ProfileEvent>& events);   // as a JSON list

}  // namespace tachy
