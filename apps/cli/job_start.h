// How a video's run begins: which output is its own, and what an earlier run has left of it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "claimed_output.h"
#include "generate_job.h"
#include "state_file.h"

namespace tachy::cli {

struct JobStart {
  ClaimedOutput output;              // nobody else writes it while this lives
  std::unique_ptr<StateFile> state;  // of that output
  std::optional<RunState> earlier;   // to go on from
  bool complete = false;             // nothing is left to do
};

// Claims the output, says what it goes on with, and throws what is in the way. A job without a name of its own (Job::named) takes the
// first free one of SLUG-SEED.mp4, SLUG-SEED_2.mp4 …; with --resume the first of these that has a state of this very job.
// model: the fingerprint, asked for when it is needed. made: outputs of this process, to which this one is added.
JobStart start_job(const GenerateOptions& options, const Job& job, const nlohmann::json& settings,
                   const std::function<std::string()>& model, std::set<std::filesystem::path>& made);

// The seed that an earlier run of this prompt has drawn, which --resume goes on with: that of an interrupted one, otherwise of a
// finished one. output: "" for those with names of their own. Seeds in `used` are other jobs'.
std::optional<uint64_t> seed_drawn_before(const std::filesystem::path& output, const std::string& prompt,
                                          const std::set<uint64_t>& used);

}  // namespace tachy::cli
