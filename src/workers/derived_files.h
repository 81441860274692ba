// Pictures of a finished job's video, in the job's folder. They appear under their names when they are
// complete, so two threads that make the same one at once do no harm.
#pragma once

#include "base/stop_flags.h"
#include "queue/job_folder.h"

namespace tachy::workers {

// Both throw what VideoReader throws for the video, and io if nothing can be written.
void make_thumbnail(const queue::JobFolder& folder);
void make_spritesheet(const queue::JobFolder& folder);

// Writes a frame of the video as a PNG, for a job that goes on from there; -1 is the last frame. Throws
// invalid_argument if there is no such frame.
void write_frame(const std::filesystem::path& video, int64_t number, const std::filesystem::path& picture,
                 CancelFlag cancel = {});

}  // namespace tachy::workers
