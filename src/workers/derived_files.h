// Pictures that are made of a finished video.
#pragma once

#include "queue/job_folder.h"

namespace tachy::workers {

// They write the folder's thumbnail() or spritesheet(). Throw what reading the video and writing a file throw.
void make_thumbnail(const queue::JobFolder& folder);
void make_spritesheet(const queue::JobFolder& folder);

}  // namespace tachy::workers
