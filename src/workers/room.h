// The room on the disk with a server's files. A run that meets a full disk loses time and not the job, so no job begins
// while there is little room, and one that was under way waits in the queue.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tachy::workers {

constexpr uint64_t kLeastRoomBytes = uint64_t{64} << 20;  // for the state of a run and its video

// Says whether a job may begin. It may also where the system does not tell.
bool has_room(const std::filesystem::path& files);

}  // namespace tachy::workers
