// One video of a `tachyscope generate`: the settings it is made by and where it goes.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "generate_options.h"
#include "settings.h"

namespace tachy::cli {

struct Job {
  RunSettings settings;
  std::filesystem::path output;
};

// A job for each prompt and seed.
std::vector<Job> make_jobs(const GenerateOptions& options);

// Where the settings of a run are written, beside its output.
std::filesystem::path settings_path(const std::filesystem::path& output);
// Whether an earlier run of the same settings has finished this output: its settings are written last.
bool is_complete(const std::filesystem::path& output, const nlohmann::json& settings);

// Makes the video, or with --plan says what that takes (generate_run.cpp).
void run_job(Engine& engine, const GenerateOptions& options, const Job& job, const PreparedRequest& prepared);

}  // namespace tachy::cli
