// Names in folders, as far as std::filesystem does not have it: a file's name that replaces nobody's, two names exchanged, a
// folder of one's own, and what a signal handler removes.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tachy::os {

// Renames a file; file_exists where `to` is taken by now, whatever it is. Any other error may mean that the file system cannot do
// it in one step.
std::error_code rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Each gets the other's name in one step, so that there is always something of either name. Not every file system can.
std::error_code exchange_names(const std::filesystem::path& one, const std::filesystem::path& other);

// Makes a folder that is this user's alone. `name` ends in XXXXXX, which characters replace that make it a new one.
std::error_code make_unique_folder(std::string& name);

// Both may be called in a signal handler, and do not say whether they could. A file, or a link; a folder stays.
void remove_file(const char* path) noexcept;
void remove_empty_folder(const char* path) noexcept;

}  // namespace tachy::os
