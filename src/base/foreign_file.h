// Recognises a file that is not what its name says, and tells the user what to do. Downloads leave such
// files: web pages, pointers and archives under the name of weights, links whose target is gone, and files
// that are incomplete.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tachy {

inline constexpr size_t kKindBytes = 512;  // the bytes at a file's beginning that tell its kind

// Names the kind of file by its first bytes, such as "it is an HTML page …", or returns "" for an unknown
// kind. Binary formats of weights begin with none of these bytes, except for safetensors, whose first eight
// bytes can be anything. So call this only if the ninth byte is not '{'.
std::string foreign_kind(std::string_view head);

// Says of a file that could not be read that its name belongs to an incomplete download; otherwise "".
std::string unfinished_name(const std::filesystem::path& path);

// Throws corrupt for a file that aria2 has not finished. Until it has, aria2 keeps a note beside the file.
void refuse_unfinished(const std::filesystem::path& path);

// Throws corrupt if a file's first bytes belong to another kind of file. `expected` describes what should be
// there.
void refuse_foreign(std::string_view head, const std::filesystem::path& path, std::string_view expected);

// Says why nothing is at a path: "no such file or folder", or which target a link there lacks.
std::string why_missing(const std::filesystem::path& path, std::string_view what = "file or folder");

// Says whether something is at a path, even a link whose target is gone: an optional file must not be ignored
// just because its link is broken.
bool lies_at(const std::filesystem::path& path);

// Throws not_found for the first link in a folder whose target is gone, if its name ends as models' files do.
// It is called when a folder does not contain what was looked for.
void refuse_dangling_link(const std::filesystem::path& folder);

}  // namespace tachy
