// Recognises a file that was supposed to be something else, and says in plain words what to do: web pages,
// pointers and archives that downloads leave under the name of weights, links whose target is gone,
// incomplete downloads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tachy {

inline constexpr size_t kKindBytes = 512;  // this many bytes at a file's beginning tell its kind

// Returns "it is an HTML page …", by the first bytes; "" for an unknown kind. Binary formats of weights begin
// with none of these, except for safetensors, whose first eight bytes may be any: call this only if the ninth
// is not '{'.
std::string foreign_kind(std::string_view head);

// For a file that could not be read: says that its name belongs to an incomplete download; "" if it does not.
std::string unfinished_name(const std::filesystem::path& path);

// Throws corrupt for a file that aria2 has not completed. It keeps a note beside the file until then.
void refuse_unfinished(const std::filesystem::path& path);

// Throws corrupt if a file's first bytes belong to a foreign kind. expected: what should have been there, in
// words.
void refuse_foreign(std::string_view head, const std::filesystem::path& path, std::string_view expected);

// Why there is nothing at a path: "no such file or folder", or the missing target of the link there.
std::string why_missing(const std::filesystem::path& path, std::string_view what = "file or folder");

// Says whether something is at a path, even a link to nothing: an optional file must not be ignored because
// of that.
bool lies_at(const std::filesystem::path& path);

// Throws not_found for the first link in a folder whose target is gone, among names with the endings of
// models' files. For callers that did not find what they looked for in the folder.
void refuse_dangling_link(const std::filesystem::path& folder);

}  // namespace tachy
