// The folder of one job. A job's id is made by this program, never by a caller, so it is safe as a name.
#pragma once

#include <filesystem>
#include <string>

namespace tachy::queue {

std::string new_job_id();  // "video_" and 32 random hexadecimal digits
bool is_job_id(std::string_view text);

// FILES/jobs/ID/ and what lies in it.
struct JobFolder {
  JobFolder(const std::filesystem::path& files, std::string_view id) : path(files / "jobs" / id) {}
  std::filesystem::path path;
  std::filesystem::path request() const { return path / "request.json"; }  // the row's request and settings
  std::filesystem::path inputs() const {
    return path / "inputs";
  }  // pictures and sounds, under names of ours
  std::filesystem::path video() const { return path / "video.mp4"; }  // JobRunner's files lie beside it
  std::filesystem::path thumbnail() const { return path / "thumbnail.jpg"; }
  std::filesystem::path spritesheet() const { return path / "spritesheet.jpg"; }
  std::filesystem::path preview(int number) const;                        // preview-7.jpg
  std::filesystem::path events() const { return path / "events.jsonl"; }  // one event a line
  std::filesystem::path log() const { return path / "log.txt"; }
};

// Gives a file a second name, or copies it where the file system cannot do that; it is synced. Throws io.
void share_file(const std::filesystem::path& from, const std::filesystem::path& to);

// The folder of all of a server's files, locked: a second server is refused it (io).
//   FILES/tachyscope.db, FILES/jobs/, FILES/spool/, FILES/link-secret
std::filesystem::path default_files();  // tachyscope in XDG_DATA_HOME, or in ~/.local/share

}  // namespace tachy::queue
