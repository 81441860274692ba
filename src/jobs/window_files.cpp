#include "jobs/window_files.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "base/disk.h"
#include "base/error.h"

namespace tachy::jobs {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

bool has_name_of_window(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".frames") && name.find_first_not_of("0123456789") == name.size() - 7;
}

}  // namespace

fs::path WindowFiles::file(size_t window) const { return folder_ / fmt::format("{:04}.frames", window + 1); }

json WindowFiles::list() const {
  json out = json::array();
  for (const FramesFile& f : finished_)
    out.push_back({{"frames", f.frames}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  return out;
}

void WindowFiles::take(const json& list, int64_t windows, int64_t frames) {
  std::vector<FramesFile> taken;
  int64_t total = 0;
  for (const json& item : list) {
    taken.push_back({item.at("frames").get<int64_t>(), item.at("bytes").get<uint64_t>(),
                     item.at("sha256").get<std::string>()});
    check(taken.back().frames >= 1 && taken.back().frames <= frames, ErrorCode::corrupt,
          "{}: a state of {} frames speaks of {}", file(taken.size() - 1).string(), frames,
          taken.back().frames);
    total += taken.back().frames;
  }
  check(static_cast<int64_t>(taken.size()) == windows && total == frames, ErrorCode::corrupt,
        "{}: a state of {} windows with {} frames speaks of {} with {}", folder_.string(), windows, frames,
        taken.size(), total);
  for (size_t i = 0; i < taken.size(); ++i) check_frames_file(file(i), taken[i]);
  finished_ = std::move(taken);
}

void WindowFiles::replay(int width, int height, const std::function<void(RgbView)>& frame) const {
  for (size_t i = 0; i < finished_.size(); ++i) read_frames(file(i), finished_[i], width, height, frame);
}

void WindowFiles::frame(RgbView frame) {
  if (!writer_) {
    std::error_code ec;
    fs::create_directory(folder_, ec);
    std::error_code ignored;
    check(fs::is_directory(folder_, ignored), ErrorCode::io, "{}: cannot make the folder: {}",
          folder_.string(), ec ? ec.message() : "the name is taken");
    auto made = std::make_unique<FramesWriter>(file(finished_.size()), frame.width, frame.height);
    made_ = made.get();
    writer_ = std::make_unique<BackgroundWriter>(std::move(made), cancel_);
  }
  writer_->write(frame);
}

void WindowFiles::complete() {
  check(writer_ != nullptr, ErrorCode::internal, "{}: a window without frames", folder_.string());
  writer_->finish_whatever_happens();
  finished_.push_back(made_->made());
  give_up();
}

void WindowFiles::give_up() { writer_.reset(), made_ = nullptr; }

fs::path WindowFiles::others() const {
  std::error_code ec;
  for (const fs::path& path : list_folder(folder_, ec))
    if (has_name_of_window(path) && !is_frames_file(path)) return path;
  return {};
}

void WindowFiles::remove() {
  give_up(), finished_.clear();
  std::error_code ec;
  for (const fs::path& path : list_folder(folder_, ec)) {
    const std::string name = path.filename().string();
    // A process that died while it wrote a window left it under another name.
    const bool half = name.starts_with('.') && name.find(".frames.") != name.npos && name.ends_with(".part");
    if (half || (has_name_of_window(path) && is_frames_file(path))) fs::remove(path, ec);
  }
  // The folder stays if it holds something else, or if it is not a folder: a file of that name, or a link to
  // another disk's folder.
  if (fs::is_directory(fs::symlink_status(folder_, ec))) fs::remove(folder_, ec);
}

}  // namespace tachy::jobs
