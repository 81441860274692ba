// Jobs that wait for the videos that they are made of: an extension for its first picture, a join for its parts. When
// those are there, the job gets its inputs from them, and is from then on a job like any other: they may be removed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "queue/job_folder.h"
#include "queue/job_table.h"

namespace tachy::workers {

// Returns why the job will never begin, if one of the jobs that it waits for has failed or is gone; "" otherwise.
std::string lost_source(const std::string& id, const queue::JobRow* source);

// Puts what the job needs of completed videos into its folder, and returns the change of its row that lets it begin.
// `video_of` returns where the video of a job lies; what it throws comes through. Throws corrupt for a row that was not
// written by this program, and what reading a video throws.
queue::Change released(const queue::JobRow& row, const queue::JobFolder& folder,
                       const std::vector<queue::JobRow>& sources,
                       const std::function<std::filesystem::path(const queue::JobRow&)>& video_of);

}  // namespace tachy::workers
