// Files that a run writes beside its output on request: previews, latents, profiles. Each belongs to one run
// at a time. If an existing file is not of the expected kind, it belongs to something else: it stays, and the
// run is refused before it begins.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/output_lock.h"

namespace tachy::jobs {

class SideFiles {
 public:
  explicit SideFiles(std::filesystem::path output = {}) : output_(std::move(output)) {}

  // Each of these claims its file; "" means none. They throw io, and invalid_argument for a name that this
  // run already uses for something else.
  void preview(const std::string& path);
  void latents(const std::string& path);
  void profile(const std::string& path);
  // Claims the file that a bench's report or a stage's tensors replace, as an output does.
  void output(const char* field, const std::string& path);

  const std::set<std::filesystem::path>& names() const { return names_; }

 private:
  void claim(const char* field, const std::string& path, const char* what,
             bool (*is_ours)(const std::string&));

  std::filesystem::path output_;
  std::set<std::filesystem::path> names_;
  std::vector<OutputLock> locks_;
};

// Returns the comment that marks a preview, so that a later run recognises it.
std::string preview_comment();

}  // namespace tachy::jobs
