// A job as JSON, for a queue or a table of a database: its settings under the keys that they have beside a
// video, and everything else under "job". Files are given by name and hash, never by a path: the reader of a
// job knows where such a file lies on its machine.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jobs/job_spec.h"

namespace tachy::jobs {

// The inputs have their hashes, as load_inputs leaves them. Outputs are given by file name only: the reader
// chooses the folder.
nlohmann::json to_json(const JobSpec& job);

// Returns the path of the file with this name, for a field ("image", "model", "vae", "loras" …). sha256 is
// given for inputs and "" for others. It may throw.
using FindFile =
    std::function<std::string(const std::string& field, const std::string& name, const std::string& sha256)>;

// The JSON may hold anything: throws corrupt or invalid_argument naming the key, also for a name that is a
// path. The inputs are not read yet: load_inputs does that and compares their hashes.
JobSpec job_of_json(const nlohmann::json& job, const FindFile& find);

}  // namespace tachy::jobs
