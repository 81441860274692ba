#include "queue/job_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/disk.h"
#include "base/env.h"
#include "base/error.h"
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

void share_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (!error) return;
  std::filesystem::copy_file(from, to, error);
  check(!error, ErrorCode::io, "an input cannot be copied: {}", error.message());
  error = sync_to_disk(to);
  check(!error, ErrorCode::io, "an input cannot be written: {}", error.message());
}

std::filesystem::path default_files() {
  const std::filesystem::path data = env_string("XDG_DATA_HOME", "");
  if (data.is_absolute()) return data / "tachyscope";  // the standard says to ignore a relative one
  const std::filesystem::path home = env_string("HOME", "");
  return home.empty() ? std::filesystem::path("tachyscope-files") : home / ".local/share/tachyscope";
}

}  // namespace tachy::queue
