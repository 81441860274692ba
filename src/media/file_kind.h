// Tells what a file is that nobody here reads, by its first bytes and not by its name: HEIC, AVIF, raw photos, a web page or a
// Git LFS pointer that was saved under a picture's or a sound's name … and what its owner can do. Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Wanted { picture, sound, video };
inline constexpr std::string_view kUnknownKind = "another kind of file";

// "a HEIC photo; convert it to PNG or JPEG": how a sentence "expected …, got " goes on. kUnknownKind for what is not
// known, or should have been read, "an empty file" for none. 4 KiB of the file are enough.
std::string file_kind(std::span<const uint8_t> head, Wanted wanted);

// The same of a file; kUnknownKind where it cannot be read.
std::string file_kind(const std::filesystem::path& path, Wanted wanted);

}  // namespace tachy
