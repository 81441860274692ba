#include "jobs/side_files.h"

#include <fmt/format.h>

#include <fstream>
#include <string_view>

#include "api/tachyscope.h"
#include "base/error.h"
#include "media/files.h"
#include "media/metadata.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPreview = R"({"tachyscope_preview":)";

bool is_preview(const std::string& path) { return read_comment(path).starts_with(kPreview); }

bool is_latents(const std::string& path) {
  read_latents(path);
  return true;
}

// Recognises the beginning that chrome_trace (report/profile_report.h) writes.
bool is_profile(const std::string& path) {
  std::string begin(256, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.starts_with(R"({"displayTimeUnit":"ms","traceEvents":[{"args":{"name":"tachyscope"})");
}

bool is_anything(const std::string&) { return true; }

// Says whether a file may be replaced: it is of the kind that is written, or empty, as mktemp makes them.
bool is_replaceable(const std::string& path, bool (*is_ours)(const std::string&)) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec) || fs::file_size(path, ec) == 0) return true;
  try {
    return is_ours(path);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string preview_comment() { return fmt::format("{}\"{}\"}}", kPreview, version()); }

void SideFiles::preview(const std::string& path) { claim("`preview`", path, "preview of a run", is_preview); }
void SideFiles::latents(const std::string& path) {
  claim("`save_latents`", path, "file of latents", is_latents);
}
void SideFiles::profile(const std::string& path) { claim("`profile`", path, "profile of a run", is_profile); }
void SideFiles::output(const char* field, const std::string& path) { claim(field, path, "", is_anything); }

void SideFiles::claim(const char* field, const std::string& path, const char* what,
                      bool (*is_ours)(const std::string&)) {
  if (path.empty()) return;
  require(path != output_ && !names_.contains(path),
          "{}: this run already writes something else to {}; give another name", field, path);
  check(is_replaceable(path, is_ours), ErrorCode::io,
        "{}: {} exists and is not a {}, so it is not replaced; move it away, or name another file", field,
        path, what);
  naming(field, [&] { locks_.emplace_back(path); });
  check_writable(field, path);
  names_.insert(path);
}

}  // namespace tachy::jobs
