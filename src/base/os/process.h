// This process, its program's file, and other processes.
#pragma once

#include <filesystem>
#include <system_error>

#include "base/os/file.h"

namespace tachy::os {

using ProcessId = int;

ProcessId process_id();
// Whether a process of this number lives, also one of another user. True where that cannot be told.
bool process_exists(ProcessId id);

// The file of the program that runs.
std::filesystem::path executable_path(std::error_code& error);
// The same file's, also after another has taken its name; nothing but zeros where the system does not say.
FileFacts executable_facts();

// From now on `then` is called in the child of each fork, which has none of its parent's threads. Systems without fork never do.
void call_in_forked_child(void (*then)());

}  // namespace tachy::os
