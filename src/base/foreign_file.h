// Tells what a file is that was to be something else, in words that say what to do: pages, pointers and archives that
// downloads leave under the name of weights, links whose target is gone, downloads that are not complete.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tachy {

inline constexpr size_t kKindBytes = 512;  // of a file's beginning tell its kind

// "it is an HTML page …", told by the first bytes; "" for what is not known. Binary formats that are weights begin with
// none of these, but for safetensors, whose first eight bytes may be any: ask only where the ninth is no '{'.
std::string foreign_kind(std::string_view head);

// That a file's name says that its download is not complete, for one that could not be read; "" where it does not.
std::string unfinished_name(const std::filesystem::path& path);

// Throws corrupt for a file that aria2 has not completed, by the note that it keeps beside it until then.
void refuse_unfinished(const std::filesystem::path& path);

// Throws corrupt where a file's first bytes are of a foreign kind. expected: what should have been there, in words.
void refuse_foreign(std::string_view head, const std::filesystem::path& path, std::string_view expected);

// Why there is nothing at a path: "no such file or folder", or where the link goes that lies there.
std::string why_missing(const std::filesystem::path& path, std::string_view what = "file or folder");

// Whether something lies at a path, be it a link to nothing: what is optional must not be passed over for that.
bool lies_at(const std::filesystem::path& path);

// Throws not_found for the first link in a folder whose target is gone, of those whose names have the endings of models'
// files: for who did not find in it what it looked for.
void refuse_dangling_link(const std::filesystem::path& folder);

}  // namespace tachy
