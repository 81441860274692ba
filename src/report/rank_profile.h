// A profile's table of ranks: for the stages that they divide, it shows each rank's kinds of work, what it sent and
// received where nothing hid that, and how long it waited for the others.
#pragma once

#include <string>
#include <vector>

#include "base/run_profiler.h"

namespace tachy {

// A rank's time in one kind of range of a stage ("self-attention/attention"). It leaves out what inner ranges cover.
struct RankPart {
  std::string name;
  ProfileKind kind;
  int64_t calls = 0;  // in all passes
  double us = 0;      // in each
};

struct RankProfile {
  std::string stage;  // "transformer" or "decode"
  int rank = 0;
  int64_t passes = 1;
  double whole_us = 0;
  std::vector<RankPart> parts;  // in the order of their first appearance; they add up to whole_us
};

// Goes by the GPUs' clocks if the profile has them. A stage's first pass, in which kernels are loaded, is left out if
// others follow it. Times are those of one pass. A single rank has a profile like this, too, to compare with.
std::vector<RankProfile> rank_profiles(const std::vector<ProfileEvent>& events);
std::string rank_table(const std::vector<ProfileEvent>& events);  // for people; "" for a stage with one rank
std::string rank_json(const std::vector<ProfileEvent>& events);   // as a JSON list

}  // namespace tachy
