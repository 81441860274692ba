// Names of outputs: default names made from the prompt, and the names that files beside an output use for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tachy::jobs {

// Returns "a-red-ball-7.mp4" or, for a prompt without a letter, "video-7.mp4".
std::filesystem::path default_name(const std::string& prompt, uint64_t seed);
// Returns the beginning of a default name, before the seed.
std::string slug_of(const std::string& prompt);

// Returns the first name, then NAME_2.mp4, NAME_3.mp4 …
std::filesystem::path nth_name(const std::filesystem::path& first, int n);

// Adds a slash to the name of an existing folder that lacks one.
std::filesystem::path as_output(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& output);

// Returns the output's own name, "clip.mp4" or "frames/", without its folder.
std::string own_name(const std::filesystem::path& output);
// Turns clip.mp4 into clip.mp4ENDING, and frames/ into framesENDING.
std::filesystem::path beside(const std::filesystem::path& output, const char* ending);

}  // namespace tachy::jobs
