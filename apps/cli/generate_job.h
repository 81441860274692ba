// One video of a `tachyscope generate`: the settings it is made by and where it goes.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "generate_options.h"
#include "settings.h"

namespace tachy::cli {

struct Job {
  RunSettings settings;
  std::filesystem::path output;
  bool named =
      true;  // false: the output's name is made from the prompt, and the next one is taken where it is there
  bool drawn = false;  // whether the seed was (--seed -1)
};

// A job for each prompt and seed.
std::vector<Job> make_jobs(const GenerateOptions& options);

// Makes the video, or with --plan says what that takes (generate_run.cpp). made: the outputs of this process so far.
void run_job(Engine& engine, const GenerateOptions& options, const Job& job, const PreparedRequest& prepared,
             std::set<std::filesystem::path>& made);

}  // namespace tachy::cli
