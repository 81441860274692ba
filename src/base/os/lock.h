// Locks on open files. The system releases a lock when the file is closed or the process ends, however it
// ends.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/os/file.h"
#include "base/os/process.h"

namespace tachy::os {

// Opens a file that exists only to be locked, and makes it if it is missing. If it belongs to another user,
// permission to read it is enough. Links are not followed, and named pipes are not waited for.
File open_lock_file(const std::filesystem::path& path, std::error_code& error);

enum class LockResult {
  locked,
  taken,        // by another open file, in this process or another
  unsupported,  // the file system has no locks
};
LockResult try_lock(const File& file);

// A lock does not tell who holds it, so its holder calls tell_holder, which lasts as long as the holder
// lives. told_holder then returns that process, or 0 for a process on another machine or in another
// container. It returns nothing if nobody has told, or if the holder is this very process.
void tell_holder(const File& file);
std::optional<ProcessId> told_holder(const File& file, std::error_code& error);

}  // namespace tachy::os
