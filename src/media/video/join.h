// Joins videos of one size and rate into one mp4. If they were encoded alike, as those of this program are, and are
// whole, their pictures are copied as they are; otherwise they are encoded again: most pictures need those before
// them. The sound is encoded again in any case: the beginnings that encoders add would be heard between the parts,
// and a part may have none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/stop_flags.h"

namespace tachy {

// The frames of a video from the first to the last that is taken, counted from 0 on.
struct JoinPart {
  std::filesystem::path path;
  int64_t first_frame = 0;
  int64_t last_frame = -1;  // -1: to the end
};

struct JoinOptions {
  std::string comment;       // embedded, as in VideoOptions
  CancelFlag cancel = {};    // when it is set, join_videos throws cancelled
  bool encode_anew = false;  // encodes the pictures again even if they could be copied
  double most_seconds = 3600;
};

struct JoinedVideo {
  int64_t frames = 0;
  double seconds = 0;
  bool copied = false;  // whether the pictures were copied
  bool sound = false;
};

// Throws invalid_argument, naming both files, if the parts differ in size or rate, or are longer together than is
// allowed, and if a part has no such frames. `output` ends in .mp4; it appears when it is complete. The parts may be
// hostile, as in VideoReader.
JoinedVideo join_videos(std::span<const JoinPart> parts, const std::filesystem::path& output,
                        const JoinOptions& options = {});
// Joins whole videos.
JoinedVideo join_videos(std::span<const std::filesystem::path> parts, const std::filesystem::path& output,
                        const JoinOptions& options = {});

}  // namespace tachy
