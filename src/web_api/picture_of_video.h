// A picture of a finished video, as a file of the spool: the input of a video that goes on from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "http/message.h"
#include "media/frame.h"

namespace tachy::web_api {

// Returns a picture as a file of the spool.
std::shared_ptr<http::SpooledFile> picture_of(const RgbFrame& frame, const std::string& name,
                                              const std::filesystem::path& spool);

// Returns the picture with this number from 0 on, or the last one for -1. Throws what reading the video throws.
std::shared_ptr<http::SpooledFile> picture_of_video(const std::filesystem::path& video, int64_t number,
                                                    const std::filesystem::path& spool);

}  // namespace tachy::web_api
