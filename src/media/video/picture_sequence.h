// Reads pictures instead of a video: a folder of them, a pattern such as out_%04d.png, or a single picture.
// Private to src/media.
#pragma once

#include <filesystem>
#include <memory>

#include "media/video/video_reader.h"

namespace tachy {

// Returns the files of the pictures; none for a path of another kind. Throws not_found if the path names no picture.
std::vector<std::filesystem::path> picture_files(const std::filesystem::path& path, int64_t max_frames);

// Returns null for a path of another kind. Throws not_found if the path names no picture.
std::unique_ptr<VideoReader> open_pictures(const std::filesystem::path& path,
                                           const ReadVideoOptions& options);

}  // namespace tachy
