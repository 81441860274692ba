// Operations on names in folders that std::filesystem lacks: renaming a file without replacing another,
// exchanging two names, making a folder with a new name, and removals that a signal handler may call.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tachy::os {

// Renames a file. Returns file_exists if anything has the name `to` by then. Any other error may mean that
// the file system cannot do this in one step.
std::error_code rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Exchanges two names in one step, so both exist at every moment. Not every file system can do this.
std::error_code exchange_names(const std::filesystem::path& one, const std::filesystem::path& other);

// Makes a folder that only this user can access. `name` ends in XXXXXX, which is replaced by characters that
// make it a new name.
std::error_code make_unique_folder(std::string& name);

// A signal handler may call both; neither reports success. The first removes a file or a link but no folder.
void remove_file(const char* path) noexcept;
void remove_empty_folder(const char* path) noexcept;

}  // namespace tachy::os
