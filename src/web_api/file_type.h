// The type of a file that somebody else has brought, as it may be told to a browser.
#pragma once

#include <filesystem>
#include <string_view>

namespace tachy::web_api {

// Returns the type by the file's first bytes, and never one that a browser would run: a picture's or a sound's, or
// "application/octet-stream".
const char* type_of_bytes(std::string_view bytes);  // the first twelve count
const char* type_of_file(const std::filesystem::path& file);

}  // namespace tachy::web_api
