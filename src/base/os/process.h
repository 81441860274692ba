// This process, the file of its program, and other processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/os/file.h"

namespace tachy::os {

using ProcessId = int;

ProcessId process_id();
// Says whether a process with this number exists, even one of another user. True if that cannot be found out.
bool process_exists(ProcessId id);

// Gives a variable of this process's environment a value, unless it has one. To be called before there are threads.
void offer_variable(const char* name, const std::string& value);

// The file of the running program.
std::filesystem::path executable_path(std::error_code& error);
// Returns facts about the file that this program was started from, even if another file now has its name. All
// are zero if the system does not report them.
FileFacts executable_facts();

// Runs another program in this process's place, under the same number and with the same streams. `arguments` are
// those after its name. Returns only if that fails, with the reason.
std::error_code become(const std::filesystem::path& program, const std::vector<std::string>& arguments);

// Lets this process have as many files and sockets open at once as the system allows it, if that is fewer than `most`
// now, and returns how many it may have.
size_t allow_open_files(size_t most);

// From now on, each fork calls `then` in the child, which has none of its parent's threads. On systems
// without fork it is never called.
void call_in_forked_child(void (*then)());

}  // namespace tachy::os
