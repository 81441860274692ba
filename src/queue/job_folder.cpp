#include "queue/job_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/env.h"
#include "base/random_bytes.h"

namespace tachy::queue {
namespace {

constexpr std::string_view kBegin = "video_";
constexpr size_t kDigits = 32;

}  // namespace

std::string new_job_id() { return std::string(kBegin) + random_hex(kDigits); }

bool is_job_id(std::string_view text) {
  return text.size() == kBegin.size() + kDigits && text.starts_with(kBegin) &&
         std::all_of(text.begin() + kBegin.size(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::filesystem::path JobFolder::preview(int number) const {
  return path / fmt::format("preview-{}.jpg", number);
}

std::filesystem::path default_files() {
  const std::filesystem::path data = env_string("XDG_DATA_HOME", "");
  if (data.is_absolute()) return data / "tachyscope";  // the standard says to ignore a relative one
  const std::filesystem::path home = env_string("HOME", "");
  return home.empty() ? std::filesystem::path("tachyscope-files") : home / ".local/share/tachyscope";
}

}  // namespace tachy::queue
