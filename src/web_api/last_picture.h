// The last picture of a finished video, as a file of the spool: the input of a video that goes on from there.
#pragma once

#include <filesystem>
#include <memory>

#include "http/message.h"

namespace tachy::web_api {

// Throws what reading the video throws.
std::shared_ptr<http::SpooledFile> last_picture(const std::filesystem::path& video,
                                                const std::filesystem::path& spool);

}  // namespace tachy::web_api
