// The name under which a file is written until it is complete: `.STEM.PID-N.part` in the folder of its final
// name.
//
// It is created exclusively, so that no other file or link is followed or lost. A signal handler removes it
// (last_words.h). When the next process writes the same final name, it removes what a killed process left.
#pragma once

#include <filesystem>
#include <system_error>

#include "base/os/file.h"

namespace tachy {

// Creates the file for reading and writing; `part` is then its path. `error` says why the system does not
// allow it. The caller calls forget_temporary(part) once it is renamed or removed.
os::File create_part(const std::filesystem::path& final_path, std::filesystem::path& part,
                     std::error_code& error);

// Removes the files that killed processes left for this final name.
void remove_left_parts(const std::filesystem::path& final_path);

// The folder that holds `path`: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace tachy
