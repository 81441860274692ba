// The flags by which other threads govern a job while it runs. Flags that are null are never set.
#pragma once

#include "base/stop_flags.h"

namespace tachy::jobs {

struct JobControl {
  const std::atomic<bool>* cancel = nullptr;  // stops the job within half a second
  // While it is true, the engine waits at its next stopping point (VideoCallbacks::hold).
  const std::atomic<bool>* hold = nullptr;
  // Set this before `cancel`: the video is then finished with the frames that are there when `cancel` comes. If there
  // are none, or if it is not an mp4 or webm that is written as a whole, the job is cancelled as without this flag.
  const std::atomic<bool>* keep = nullptr;
  // When the job is stopped, its last finished step is saved even if it was not due (JobSpec::state_every), so that the
  // job can go on later. Otherwise a job that is stopped soon leaves nothing behind.
  bool saves_last_step = true;

  CancelFlag of_writing() const { return {cancel, keep}; }
  bool keeps() const { return keep && keep->load(); }
};

}  // namespace tachy::jobs
