// A recorded script of actions, and the choice of the action for each block of a world.
//
//   {"fps": 12, "actions": [{"frames": 24, "keys": ["W"], "mouse": [0, 0.1]}, {"frames": 12}, …]}
//
// `frames` counts frames of the video, beginning with its first one; without `keys` and `mouse` nothing is
// held. A block follows one action: the one that is held during most of its frames, or the earlier one if two
// are held equally long.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "api/world.h"

namespace tachy::cli {

struct ScriptedAction {
  int64_t frames = 0;
  WorldAction action;
};

struct WorldScript {
  std::optional<double> fps;
  std::vector<ScriptedAction> actions;
  int64_t frames() const;
};

// Throws not_found, io, corrupt and invalid_argument, naming the file, the entry's index and the reason;
// `info` tells which keys exist.
WorldScript read_world_script(const std::filesystem::path& path, const WorldInfo& info);

// Returns the action for the block of `frames` frames that begins at `first`. After the script's end nothing
// is held.
const WorldAction& action_of_block(const WorldScript& script, int64_t first, int64_t frames);

}  // namespace tachy::cli
