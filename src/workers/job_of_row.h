// Between a row of the table and the job that the engine runs: where its files lie, what the row says of a
// finished video, and the code of what went wrong.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "jobs/job_spec.h"
#include "queue/job_folder.h"
#include "queue/job_row.h"
#include "workers/models.h"

namespace tachy::workers {

// Returns the job of a row, which makes the video in the job's folder and goes on from a state that is there.
// Its inputs are read, and compared with the hashes in the row. `loras` is the folder of LoRA files.
jobs::JobSpec job_of_row(const queue::JobRow& row, const queue::JobFolder& folder, const ServedModel& model,
                         const std::filesystem::path& loras);

// Returns the names of the files in the job's folder of inputs that its settings name.
std::vector<std::string> input_names(const queue::JobRow& row);

// Describes the finished video as JSON: size, width, height, frames, fps, seconds (text with two decimals),
// seed, bytes.
std::string facts_of(const VideoRequest& filled, const std::filesystem::path& video);

// Returns the bytes of all files in a folder; those that vanish meanwhile do not count.
uint64_t bytes_of_folder(const std::filesystem::path& folder);

// Removes what only a run that goes on would need: the state and the files of finished windows.
void remove_states(const queue::JobFolder& folder);

// Returns the code and the message of an error as a caller of the server gets it. Paths of the server's
// files, of the model (which may be null) and of LoRA files become names.
queue::JobError job_error(ErrorCode code, std::string message, const queue::JobFolder& folder,
                          const ServedModel* model, const std::filesystem::path& loras);

}  // namespace tachy::workers
