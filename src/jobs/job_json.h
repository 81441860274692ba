// A job as JSON, for a queue or a table of a database: its settings under the keys that they have beside a video, and under "job" what is
// no setting. Files are told by name and hash, never by a path: whoever reads a job says where such a file lies on his machine.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jobs/job_spec.h"

namespace tachy::jobs {

// Inputs have their hashes, as load_inputs leaves them. Names of outputs are those of files: the folder is the reader's.
nlohmann::json to_json(const JobSpec& job);

// Where the file of a field ("image", "model", "vae", "loras" …) lies that has this name; sha256: of an input, "" of others. It may throw.
using FindFile =
    std::function<std::string(const std::string& field, const std::string& name, const std::string& sha256)>;

// The JSON may hold anything: throws corrupt or invalid_argument naming the key, also for a name that is a path. The inputs are not
// read yet: load_inputs does that, and compares their hashes.
JobSpec job_of_json(const nlohmann::json& job, const FindFile& find);

}  // namespace tachy::jobs
