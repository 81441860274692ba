// The name under which a file is written until it is whole: `.STEM.PID-N.part` in the folder of its final name.
//
// It is created exclusively, so that nobody's file or link is followed or lost. A signal handler removes it
// (last_words.h). What a killed process left of a final name is removed when the next one writes that name.
#pragma once

#include <filesystem>
#include <system_error>

#include "base/os/file.h"

namespace tachy {

// Creates the file, for reading and writing; `part` is its path then. `error` says why the system does not let it. The caller
// calls forget_temporary(part) once it is renamed or removed.
os::File create_part(const std::filesystem::path& final_path, std::filesystem::path& part,
                     std::error_code& error);

// Removes what killed processes left of this final name.
void remove_left_parts(const std::filesystem::path& final_path);

// The folder that holds `path`: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace tachy
