// Makes the video of a job that joins others.
#pragma once

#include <filesystem>
#include <vector>

#include "base/stop_flags.h"
#include "media/video/join.h"

namespace tachy::workers {

// Joins the videos in this order. The output appears when it is complete and on the disk. It carries the
// program's version and the parts' names and hashes. Throws what tachy::join_videos throws.
JoinedVideo join_videos(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                        CancelFlag cancel);

}  // namespace tachy::workers
