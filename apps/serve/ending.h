// SIGTERM and ctrl-C end the server in order: no new jobs, the states of those under way saved, exit code 0. What takes
// longer than a few seconds is not waited for: after a restart a job goes on from the last state that it saved. A second
// signal ends the process at once.
#pragma once

#include <atomic>

namespace tachy::serve_app {

extern std::atomic<bool> g_ending;

void install_ending();

}  // namespace tachy::serve_app
