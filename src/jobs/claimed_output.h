// An output that belongs to this process while it is being made (base/output_lock.h): another run is refused
// the same output.
#pragma once

#include <filesystem>
#include <optional>

#include "base/output_lock.h"

namespace tachy::jobs {

class ClaimedOutput {
 public:
  ClaimedOutput() = default;  // nothing is claimed
  // Claims a video's or a file's name, a pattern, or a folder (which is made). "-" claims nothing, nor does
  // anything that is not a plain file, such as a pipe. Throws io while another process has the output. With
  // `streamed`, the file that a link leads to is written, and the link stays.
  explicit ClaimedOutput(std::filesystem::path output, bool streamed = false);
  // Does the same, but returns nothing while another process has the output.
  static std::optional<ClaimedOutput> attempt(const std::filesystem::path& output);
  // Claims the first of NAME.mp4, NAME_2.mp4 … that neither exists nor was begun by anybody.
  static ClaimedOutput next_free(const std::filesystem::path& first);
  ~ClaimedOutput();
  ClaimedOutput(ClaimedOutput&& other) noexcept;
  ClaimedOutput& operator=(ClaimedOutput&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }

 private:
  void give_back();

  std::filesystem::path path_, made_;  // made_ is the folder, if this object made it
  OutputLock lock_;
};

}  // namespace tachy::jobs
