#include "web_api/job_files.h"

#include <map>
#include <system_error>

#include "base/disk.h"
#include "base/os/file.h"
#include "jobs/settings.h"
#include "queue/job_folder.h"

namespace tachy::web_api {
namespace fs = std::filesystem;
namespace {

void expect_written(const std::error_code& error, const char* what) {
  check(!error, ErrorCode::io, "{}: {}", what, error.message());
}

}  // namespace

NewFolder::NewFolder(const fs::path& files, std::string id)
    : jobs_(files / "jobs"), path_(jobs_ / (kNewFolder + id)), id_(std::move(id)) {
  std::error_code error;
  fs::create_directories(path_ / "inputs", error);
  expect_written(error, "the job's folder cannot be made");
}

NewFolder::~NewFolder() {
  if (!kept_) remove_folder(path_);
}

void NewFolder::finish(const std::string& request) {
  write_synced(path_ / "request.json", request);
  expect_written(sync_to_disk(path_ / "inputs"), "the job's folder cannot be written");
  expect_written(sync_to_disk(path_), "the job's folder cannot be written");
  std::error_code error;
  fs::rename(path_, jobs_ / id_, error);
  expect_written(error, "the job's folder cannot be named");
  path_ = jobs_ / id_;
  expect_written(sync_to_disk(jobs_), "the folder of jobs cannot be written");
}

void place_inputs(JobRequest& request, const fs::path& now, const fs::path& later) {
  std::map<fs::path, fs::path> moved;  // one file may be the input of two fields
  for (auto& [field, input] : request.job.settings.inputs) {
    if (input.path.empty()) continue;
    if (input.sha256.empty()) input.sha256 = jobs::sha256_of(input.path, field);
    const std::string name = field + "-" + input.sha256.substr(0, 16);
    const fs::path from = input.path, to = now / name;
    std::error_code ignored;
    if (const auto before = moved.find(from); before != moved.end()) {
      queue::share_file(before->second, to);
    } else if (!fs::exists(to, ignored)) {  // a changed job may have it already
      const auto spooled =
          std::ranges::find_if(request.files, [&](auto& file) { return file->path() == from; });
      if (spooled == request.files.end())
        queue::share_file(from, to);
      else
        (*spooled)->keep(to);
    }
    moved[from] = to;
    input.path = later / name;
  }
}

void write_synced(const fs::path& path, const std::string& text) {
  fs::path temporary = path;
  temporary += ".part";
  std::error_code error;
  fs::remove(temporary, error);
  {
    os::File file(temporary, os::OpenAs::new_file, error);
    if (!error) error = file.write(text.data(), text.size());
    if (!error) error = file.sync();
    if (error == std::errc::invalid_argument) error.clear();  // a file system that cannot sync
    if (!error) error = file.close();
  }
  if (!error) fs::rename(temporary, path, error);
  expect_written(error, "a job's file cannot be written");
}

void remove_folder(const fs::path& folder) noexcept try {
  std::error_code error;
  fs::path gone = folder;
  if (!folder.filename().string().starts_with('.')) {
    gone = folder.parent_path() / (kGoneFolder + folder.filename().string());
    fs::rename(folder, gone, error);
    if (error) gone = folder;
  }
  fs::remove_all(gone, error);
} catch (...) {  // no memory for a path: tidy() finds the folder at the next start
}

}  // namespace tachy::web_api
