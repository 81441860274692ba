// The folder of a job while it is being made, and its inputs. Names in it are ours alone: an input's name is that of
// its field and the beginning of its hash.
#pragma once

#include <filesystem>
#include <string>

#include "web_api/service.h"

namespace tachy::web_api {

// A folder that becomes a job's when everything in it is on the disk. Until then it has a temporary name
// (".new-" before the id), and it is removed with this object unless keep() was called.
class NewFolder {
 public:
  NewFolder(const std::filesystem::path& files, std::string id);  // makes it
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& id() const { return id_; }
  std::filesystem::path inputs() const { return path_ / "inputs"; }
  // Writes request.json, syncs everything, and gives the folder its own name.
  void finish(const std::string& request);
  void keep() { kept_ = true; }  // the table has a row for it

 private:
  std::filesystem::path jobs_, path_;
  std::string id_;
  bool kept_ = false;
};

inline constexpr const char* kNewFolder = ".new-";
inline constexpr const char* kGoneFolder = ".gone-";

// Moves the job's inputs into the folder `now`; the job then names them in the folder `later`, which is the same one
// under the name that it gets. Files of the spool are moved, and those of another job are shared with it.
void place_inputs(JobRequest& request, const std::filesystem::path& now, const std::filesystem::path& later);

// Writes a file under a temporary name, syncs and renames it. Throws io.
void write_synced(const std::filesystem::path& path, const std::string& text);
// Takes the folder's name away at once, and then removes it. What cannot be removed now is left to tidy().
void remove_folder(const std::filesystem::path& folder) noexcept;

}  // namespace tachy::web_api
