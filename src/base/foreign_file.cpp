#include "base/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/disk.h"
#include "base/error.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  size_t at;
  std::string_view kind;
};
constexpr std::string_view kPacked = ": unpack it and name what is in it";
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, 0, "a gzip archive"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive"},
    {"Rar!\x1a\x07"sv, 0, "a RAR archive"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "an xz archive"},
    {"BZh"sv, 0, "a bzip2 archive"},
    {"\x28\xb5\x2f\xfd"sv, 0, "a zstd archive"},
    {"ustar"sv, 257, "a tar archive"},
    {"\x89PNG\r\n"sv, 0, "a PNG picture"},
    {"\xff\xd8\xff"sv, 0, "a JPEG picture"},
    {"%PDF-"sv, 0, "a PDF document"},
    {"\x89HDF\r\n"sv, 0, "an HDF5 file"},
    {"\x93NUMPY"sv, 0, "a NumPy array"},
    {"ftyp"sv, 4, "a video or a picture"},
};
constexpr std::string_view kUnfinished[] = {".part",    ".aria2",    ".incomplete", ".crdownload",
                                            ".partial", ".download", ".!qb",        ".opdownload"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Removes a byte order mark and white space in front of a text.
std::string_view trimmed(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? std::string_view() : text.substr(first);
}

// Returns the first line of a text file, or "" for anything else.
std::string first_line(std::string_view head) {
  const std::string_view text = trimmed(head),
                         line = text.substr(0, std::min<size_t>(text.find_first_of("\r\n"), 80));
  const auto printed = [](unsigned char c) { return c >= 0x20 && c != 0x7f; };
  return line.size() >= 4 && std::ranges::all_of(line, printed) ? std::string(line) : "";
}

}  // namespace

std::string foreign_kind(std::string_view head) {
  const std::string_view text = trimmed(head);
  const std::string small = lower(text.substr(0, 64));
  for (const std::string_view tag : {"<!doctype html", "<html", "<head", "<?xml", "<!--"})
    if (small.starts_with(tag))
      return "it is an HTML page, saved under the file's name: the download needed a login, or its address "
             "was that of the page about the file (on Hugging Face /blob/ instead of /resolve/); download it "
             "again";
  if (text.starts_with("version https://git-lfs"))
    return "this is a git-lfs pointer, not the file itself: run 'git lfs pull' where it was cloned, or "
           "download it with 'hf download'";
  if (small.starts_with("# xet version"))
    return "this is a git-xet pointer, not the file itself: install git-xet and pull again, or download it "
           "with 'hf download'";
  for (const Magic& magic : kMagics)
    if (head.size() >= magic.at + magic.bytes.size() &&
        head.substr(magic.at, magic.bytes.size()) == magic.bytes)
      return fmt::format("it is {}{}", magic.kind, magic.kind.ends_with("archive") ? kPacked : "");
  if (head.size() >= 64 && head.find_first_not_of('\0') == head.npos)
    return "it begins with zeros, like a download that was not completed; download it again";
  if (text.starts_with("{\"error\"") || small.starts_with("entry not found") ||
      small.starts_with("repository not found") || small.starts_with("invalid ") ||
      small.starts_with("access ") || small.starts_with("unauthorized") || small.starts_with("not found") ||
      small.starts_with("forbidden"))
    return fmt::format(
        "it is a server's error message, '{}', and not the file: download it again, with a login if it needs "
        "one",
        first_line(head));
  return "";
}

std::string unfinished_name(const fs::path& path) {
  const std::string name = lower(path.filename().string());
  const bool unfinished =
      std::ranges::any_of(kUnfinished, [&](std::string_view ending) { return name.ends_with(ending); });
  return unfinished ? "its name says that it is an unfinished download: let it finish, or download it again"
                    : "";
}

void refuse_unfinished(const fs::path& path) {
  // aria2 reserves space for the whole file at once, so it may have its header and otherwise zeros.
  fs::path note = path;
  note += ".aria2";
  check(!lies_at(note), ErrorCode::corrupt,
        "{}: {} beside it shows that its download is not finished: let it finish, or download it again",
        path.string(), note.filename().string());
}

void refuse_foreign(std::string_view head, const fs::path& path, std::string_view expected) {
  const std::string kind = foreign_kind(head);
  const bool says_what_to_do = kind.find(": ") != kind.npos;
  check(kind.empty(), ErrorCode::corrupt, "{}: {}{}", path.string(), kind,
        says_what_to_do ? "" : fmt::format("; expected {}", expected));
}

std::string why_missing(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  if (error) return fmt::format("no such {}", what);
  return fmt::format(
      "it is a link to {}, which is missing: its download was not completed, or the file was moved or "
      "deleted; download it again",
      target.string());
}

bool lies_at(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void refuse_dangling_link(const fs::path& folder) {
  static constexpr std::string_view kEndings[] = {".safetensors", ".json", ".gguf", ".pth",
                                                  ".pt",          ".bin",  ".model"};
  std::error_code error;
  for (const fs::path& item : list_folder(folder, error)) {
    const std::string name = item.filename().string();
    if (std::ranges::none_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); }))
      continue;
    std::error_code ignored;
    check(!fs::is_symlink(fs::symlink_status(item, ignored)) || fs::exists(item, ignored),
          ErrorCode::not_found, "{}: {}", item.string(), why_missing(item));
  }
}

}  // namespace tachy
