// Makes the video of a job that joins others.
#pragma once

#include <filesystem>
#include <span>

#include "base/stop_flags.h"
#include "media/video/join.h"

namespace tachy::workers {

// Joins the parts in this order. The output appears when it is complete and on the disk. It carries the program's
// version and the parts' names, hashes and frames. Throws what tachy::join_videos throws.
JoinedVideo join_videos(std::span<const JoinPart> parts, const std::filesystem::path& output,
                        CancelFlag cancel);

}  // namespace tachy::workers
