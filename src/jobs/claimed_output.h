// An output that belongs to this process while it makes it (base/output_lock.h): another run of it is refused.
#pragma once

#include <filesystem>
#include <optional>

#include "base/output_lock.h"

namespace tachy::jobs {

class ClaimedOutput {
 public:
  ClaimedOutput() = default;  // nothing is claimed
  // A video's or a file's name, a pattern, a folder (which is made), or "-", which claims nothing, as does what is no plain file.
  // Throws io while another process has it. streamed: written where a link leads to, and not in its place.
  explicit ClaimedOutput(std::filesystem::path output, bool streamed = false);
  // The same, or nothing while another process has it.
  static std::optional<ClaimedOutput> attempt(const std::filesystem::path& output);
  // The first of NAME.mp4, NAME_2.mp4 … that neither exists nor is begun, by whomever.
  static ClaimedOutput next_free(const std::filesystem::path& first);
  ~ClaimedOutput();
  ClaimedOutput(ClaimedOutput&& other) noexcept;
  ClaimedOutput& operator=(ClaimedOutput&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }

 private:
  void give_back();

  std::filesystem::path path_, made_;  // made_: the folder, if there was none
  OutputLock lock_;
};

}  // namespace tachy::jobs
