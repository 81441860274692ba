// This process, the file of its program, and other processes.
#pragma once

#include <filesystem>
#include <system_error>

#include "base/os/file.h"

namespace tachy::os {

using ProcessId = int;

ProcessId process_id();
// Says whether a process with this number lives, even one of another user. True if that cannot be found out.
bool process_exists(ProcessId id);

// The file of the running program.
std::filesystem::path executable_path(std::error_code& error);
// Facts about the same file, even if another one has taken its name; all zero if the system does not report
// them.
FileFacts executable_facts();

// From now on `then` is called in the child of each fork, which has none of its parent's threads. On systems
// without fork it is never called.
void call_in_forked_child(void (*then)());

}  // namespace tachy::os
