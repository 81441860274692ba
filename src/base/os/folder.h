// Operations on names in folders that std::filesystem lacks: renaming a file without replacing another one,
// exchanging two names, making a unique folder, and removals that a signal handler may do.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tachy::os {

// Renames a file; file_exists if `to` is taken by now, by anything. Any other error may mean that the file
// system cannot do this in one step.
std::error_code rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Exchanges two names in one step, so that both names exist at every moment. Not every file system can do so.
std::error_code exchange_names(const std::filesystem::path& one, const std::filesystem::path& other);

// Makes a folder that only this user can access. `name` ends in XXXXXX; these are replaced by characters that
// make the name new.
std::error_code make_unique_folder(std::string& name);

// A signal handler may call both; they do not report success. The first removes a file or a link; it leaves a
// folder.
void remove_file(const char* path) noexcept;
void remove_empty_folder(const char* path) noexcept;

}  // namespace tachy::os
