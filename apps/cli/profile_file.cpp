#include "profile_file.h"

#include <fmt/format.h>

#include "api/profile.h"
#include "media/files.h"
#include "status_line.h"

namespace tachy::cli {

ProfileWords write_profile(const std::string& path, const RunProfiler& profiler) {
  write_whole(path, chrome_trace(profiler));
  return {profile_json(profiler), fmt::format("{}{}: open it in ui.perfetto.dev or chrome://tracing",
                                              profile_tables(profiler), path)};
}

}  // namespace tachy::cli
