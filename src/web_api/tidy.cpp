// Removes, before the server begins, whatever a crash has left between the table and the folders. The table
// decides: a folder without a row goes, as does the row of an ended job without a folder. A job that waits
// keeps its row in any case; where its folder is gone it gets a new one, and if inputs are missing it fails
// with a message of its own.
//
// Where several hosts share the folder, the others go on meanwhile: a folder may be on its way into the table, and a row
// that another host's files belong to has no folder here. So only what is older than kOldEnough goes, by the clock of
// the folder's own file system.
#include <chrono>
#include <unordered_set>

#include "base/disk.h"
#include "queue/job_folder.h"
#include "web_api/asked.h"
#include "web_api/job_files.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr int kPageRows = 1000;
constexpr std::chrono::minutes kOldEnough{10};

using Names = std::unordered_set<std::string>;

Names folder_names(const fs::path& jobs) {
  Names names;
  std::error_code error;
  for (const fs::path& folder : list_folder(jobs, error)) names.insert(folder.filename().string());
  return names;
}

// Returns the ids of all jobs whose rows stay.
Names tidied_rows(Service& service, const Names& folders) {
  Names ids;
  std::vector<std::string> lost;
  std::string after;
  for (bool more = true; more;) {
    const queue::Page page = service.table.list(nullptr, after, kPageRows, true);
    for (const queue::JobRow& row : page.rows) {
      if (row.files != service.files_id) {
        if (!has_ended(row)) ids.insert(row.id);  // its inputs may be here
        continue;
      }
      if (!folders.contains(row.id) && has_ended(row)) {
        lost.push_back(row.id);
        continue;
      }
      std::error_code ignored;
      if (!has_ended(row)) fs::create_directories(queue::JobFolder(service.files, row.id).inputs(), ignored);
      ids.insert(row.id);
    }
    more = page.has_more && !page.rows.empty();
    if (!page.rows.empty()) after = page.rows.back().id;
  }
  for (const std::string& id : lost) service.table.remove(id);
  return ids;
}

// Says whether a folder has a name that only this program gives.
bool is_ours(const std::string& name) {
  for (const char* beginning : {kNewFolder, kGoneFolder})
    if (name.starts_with(beginning)) return queue::is_job_id(name.substr(std::string_view(beginning).size()));
  return queue::is_job_id(name);
}

// Returns the names of folders that have not changed for a while.
Names old_ones(const Service& service, const fs::path& jobs, const Names& folders) {
  const fs::path now_file = service.own_files() / "now";
  write_synced(now_file, "");
  const auto until = fs::last_write_time(now_file) - kOldEnough;
  Names old;
  std::error_code error;
  for (const std::string& name : folders)
    if (const auto time = fs::last_write_time(jobs / name, error); !error && time < until) old.insert(name);
  return old;
}

}  // namespace

void tidy(Service& service) {
  const fs::path jobs = service.files / "jobs";
  Names folders = folder_names(jobs);
  const Names ids = tidied_rows(service, folders);
  if (!service.files_id.empty()) folders = old_ones(service, jobs, folders);
  for (const std::string& name : folders)
    if (is_ours(name) && !ids.contains(name)) remove_folder(jobs / name);
}

}  // namespace tachy::web_api
