// The settings of a video that `tachyscope world` makes from a script; the video contains them as its
// comment.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "world_actions.h"
#include "world_command.h"

namespace tachy::cli {

// Returns everything that the video's pixels depend on.
nlohmann::json world_settings(const WorldCommandOptions& options, const World& world,
                              const WorldScript& script, int64_t frames, double fps);

}  // namespace tachy::cli
