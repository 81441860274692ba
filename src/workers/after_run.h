// The work after a run, beside the video itself.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "queue/event_book.h"
#include "queue/job_folder.h"
#include "queue/job_row.h"

namespace tachy::workers {

// Makes the thumbnail. The video is complete without one, so what goes wrong is only said.
void make_thumbnail_if_possible(const queue::JobFolder& folder,
                                const std::function<void(const std::string&)>& say);

// Makes the video of a job of the kind "join": row.settings is {"join": ["1.mp4", "2.mp4" …]}, names in the
// folder's inputs. Sets the row's facts.
void join_job(queue::JobRow& row, const queue::JobFolder& folder, const std::atomic<bool>* cancel);

// Returns the highest number of a preview in the folder, or 0.
int last_preview_of(const queue::JobFolder& folder);
// Removes the previews but for those with the highest numbers.
void keep_previews(const queue::JobFolder& folder, int newest);

queue::JobError cancelled_error();

// Adds the event `done` or `failed` of a row that has ended.
void tell_end(queue::EventBook& book, const queue::JobRow& row);

}  // namespace tachy::workers
