// The name that a file has while it is being written: `.STEM.PID-N.part` in the folder of its final name.
//
// The file is created exclusively, so no link is followed and no other file is lost. A signal handler removes
// it (last_words.h). If a process is killed, the next one that writes the same final name removes the file.
#pragma once

#include <filesystem>
#include <system_error>

#include "base/os/file.h"

namespace tachy {

// Creates the file for reading and writing, and sets `part` to its path; `error` is the system's reason if it
// fails. After renaming or removing the file, the caller calls forget_temporary(part).
os::File create_part(const std::filesystem::path& final_path, std::filesystem::path& part,
                     std::error_code& error);

// Removes the files that killed processes left for this final name.
void remove_left_parts(const std::filesystem::path& final_path);

// Returns the folder that holds `path`, or "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace tachy
