// Locks of open files. The system releases a lock when the file is closed or the process ends, in whatever
// way.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/os/file.h"
#include "base/os/process.h"

namespace tachy::os {

// Opens a file whose only purpose is to be locked; makes it if it is missing. If it belongs to another user,
// it is enough that it can be read. Links are not followed, and named pipes are not waited for.
File open_lock_file(const std::filesystem::path& path, std::error_code& error);

enum class LockResult {
  locked,
  taken,        // by another open file, of another process or of this one
  unsupported,  // the file system has no locks
};
LockResult try_lock(const File& file);

// Such a lock does not tell who holds it. Its holder can do so by tell_holder, as long as it lives.
// told_holder returns that process, 0 for a process of another machine or container, and nothing if nobody
// has told, or if it is this very process.
void tell_holder(const File& file);
std::optional<ProcessId> told_holder(const File& file, std::error_code& error);

}  // namespace tachy::os
