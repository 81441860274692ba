#include "workers/room.h"

#include "base/full_disk.h"
#include "base/log.h"
#include "workers/foreman_state.h"

namespace tachy::workers {
namespace {

bool may_begin(const ForemanOptions& options) {
  return options.has_room ? options.has_room() : has_room(options.files);
}

}  // namespace

bool has_room(const std::filesystem::path& files) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(files, error);
  return error || space.available >= kLeastRoomBytes;
}

bool Foreman::State::room_on_disk() {
  const bool now = may_begin(options);
  if (now != full) return now;
  full = !now;
  if (now)
    warn("the disk with the videos has room again, so jobs begin");
  else
    warn("the disk with the videos is full, so no job begins: less than {} MiB are free",
         kLeastRoomBytes >> 20);
  if (options.presence) options.presence->announce_now();
  return now;
}

// A job for which the disk is too small by itself would find room again as soon as its files are removed, and fails.
bool RunningJob::waits_for_room(ErrorCode code, const std::string& text) {
  if (code != ErrorCode::io || !says_full(text)) return false;
  if (may_begin(shop_.options)) return false;
  notice("the disk is full, so the job waits until there is room");
  stop(Stop::full);
  return why_ == Stop::full;
}

}  // namespace tachy::workers
