// Names the kind of a file that cannot be read here, and tells its owner what to do: HEIC, AVIF, raw photos,
// a web page or a Git LFS pointer that was saved under a picture's or a sound's name …. The first bytes of
// the file decide, not its name. Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Wanted { picture, sound, video };
inline constexpr std::string_view kUnknownKind = "another kind of file";

// Returns, for example, "a HEIC photo; convert it to PNG or JPEG", to complete a sentence "expected …, got ".
// Returns kUnknownKind for a file that is not recognised or should have been readable, and "an empty file"
// for one without bytes. 4 KiB of the file are enough.
std::string file_kind(std::span<const uint8_t> head, Wanted wanted);

// Does the same for a file, with kUnknownKind if it cannot be read.
std::string file_kind(const std::filesystem::path& path, Wanted wanted);

}  // namespace tachy
