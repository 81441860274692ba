#include "base/part_name.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/last_words.h"
#include "base/os/folder.h"
#include "base/os/process.h"
#include "base/whole_characters.h"

namespace tachy {
namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

namespace {

constexpr size_t kStemBytes = 100;

// Returns the process in ".STEM.PID-N.part", or 0 for any other name.
os::ProcessId maker_of(std::string_view name, std::string& stem) {
  if (!name.starts_with('.') || !name.ends_with(".part")) return 0;
  name = name.substr(1, name.size() - 6);
  const size_t dot = name.rfind('.'), dash = name.rfind('-');
  if (dot == name.npos || dash == name.npos || dash < dot) return 0;
  stem = name.substr(0, dot);
  os::ProcessId pid = 0;
  const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + dash, pid);
  return error == std::errc() && end == name.data() + dash && pid > 0 ? pid : 0;
}

// Removes temporary files for this final name whose process no longer exists. Each folder is listed only
// once, because a sequence of pictures uses thousands of names.
void remove_left(const fs::path& folder, const std::string& stem) {
  static std::mutex mutex;
  static std::map<std::string, std::multimap<std::string, std::pair<os::ProcessId, fs::path>>> folders;
  std::lock_guard lock(mutex);
  const auto [it, fresh] = folders.try_emplace(folder.string());
  if (fresh) {
    std::error_code ec;
    for (const auto& item : fs::directory_iterator(folder, ec)) {
      std::string of;
      if (const os::ProcessId pid = maker_of(item.path().filename().string(), of); pid > 0)
        it->second.emplace(of, std::pair(pid, item.path()));
    }
  }
  const auto [first, last] = it->second.equal_range(stem);
  for (auto left = first; left != last; ++left) {
    const auto& [pid, path] = left->second;
    if (!os::process_exists(pid)) os::remove_file(path.c_str());
  }
  it->second.erase(first, last);
}

std::string stem_of(const fs::path& final_path) {
  return std::string(whole_characters(final_path.filename().string(), kStemBytes));
}

}  // namespace

void remove_left_parts(const fs::path& final_path) {
  remove_left(folder_of(final_path), stem_of(final_path));
}

os::File create_part(const fs::path& final_path, fs::path& part, std::error_code& error) {
  static std::atomic<int> counter{0};
  const std::string stem = stem_of(final_path);
  remove_left(folder_of(final_path), stem);
  for (int tries = 0; tries <= 100; ++tries) {
    part = folder_of(final_path) / fmt::format(".{}.{}-{}.part", stem, os::process_id(), counter++);
    os::File file(part, os::OpenAs::new_file, error);
    if (!error) note_temporary(part.native());
    if (error != std::errc::file_exists) return file;
  }
  return {};
}

}  // namespace tachy
