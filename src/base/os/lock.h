// Locks of open files. The system gives a lock back when the file is closed or the process ends, however it ends.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/os/file.h"
#include "base/os/process.h"

namespace tachy::os {

// A file that is there to be locked, made where it is missing; of another user's one that can only be read is enough. A link is
// not followed, and a named pipe not waited for.
File open_lock_file(const std::filesystem::path& path, std::error_code& error);

enum class LockResult {
  locked,
  taken,        // by another open file: another process, or this one
  unsupported,  // the file system has no locks
};
LockResult try_lock(const File& file);

// Such a lock does not say who has it. Its holder can, with tell_holder, as long as it lives; told_holder is that process, 0 for one
// of another machine or container, and nothing where nobody has told, or this very process has.
void tell_holder(const File& file);
std::optional<ProcessId> told_holder(const File& file, std::error_code& error);

}  // namespace tachy::os
