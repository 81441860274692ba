// Names the kind of a file that nothing here can read, by its first bytes and not by its name (HEIC, AVIF,
// raw photos, a web page or a Git LFS pointer that was saved under a picture's or a sound's name …), and says
// what its owner can do. Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Wanted { picture, sound, video };
inline constexpr std::string_view kUnknownKind = "another kind of file";

// "a HEIC photo; convert it to PNG or JPEG": completes a sentence "expected …, got ". kUnknownKind for a file
// that is not recognised or should have been readable, "an empty file" for one without bytes. 4 KiB of the
// file are enough.
std::string file_kind(std::span<const uint8_t> head, Wanted wanted);

// Does the same for a file; kUnknownKind if it cannot be read.
std::string file_kind(const std::filesystem::path& path, Wanted wanted);

}  // namespace tachy
