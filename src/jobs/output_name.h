// Names of outputs: those that are made from the prompt, and what an output is called in what is written beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tachy::jobs {

// "a-red-ball-7.mp4"; of a prompt without a letter "video-7.mp4".
std::filesystem::path default_name(const std::string& prompt, uint64_t seed);
// The beginning of a default name, before the seed.
std::string slug_of(const std::string& prompt);

// The first name, then NAME_2.mp4, NAME_3.mp4 …
std::filesystem::path nth_name(const std::filesystem::path& first, int n);

// A folder that exists, named without a slash at its end, gets one.
std::filesystem::path as_output(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& output);

// "clip.mp4" or "frames/": the output's own name, wherever it lies.
std::string own_name(const std::filesystem::path& output);
// clip.mp4 → clip.mp4ENDING, frames/ → framesENDING
std::filesystem::path beside(const std::filesystem::path& output, const char* ending);

}  // namespace tachy::jobs
