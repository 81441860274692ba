#include "jobs/output_name.h"

#include <fmt/format.h>

#include <system_error>

#include "text/file_name.h"

namespace tachy::jobs {

namespace fs = std::filesystem;

namespace {

// With a seed, a number and the endings of the files beside it, a name still has less than 255 bytes.
constexpr size_t kSlugBytes = 120;

}  // namespace

std::string slug_of(const std::string& prompt) {
  const std::string slug = text::file_name_of(prompt, kSlugBytes);
  return slug.empty() ? "video" : slug;
}

fs::path default_name(const std::string& prompt, uint64_t seed) {
  return fmt::format("{}-{}.mp4", slug_of(prompt), seed);
}

fs::path nth_name(const fs::path& first, int n) {
  if (n == 1) return first;
  return first.parent_path() / fmt::format("{}_{}{}", first.stem().string(), n, first.extension().string());
}

bool is_folder(const fs::path& output) { return output.filename().empty(); }

fs::path as_output(const fs::path& path) {
  std::error_code ec;
  return !path.empty() && !is_folder(path) && fs::is_directory(path, ec) ? path / "" : path;
}

std::string own_name(const fs::path& output) {
  return is_folder(output) ? output.parent_path().filename().string() + "/" : output.filename().string();
}

fs::path beside(const fs::path& output, const char* ending) {
  fs::path path = is_folder(output) ? output.parent_path() : output;
  return path += ending;
}

}  // namespace tachy::jobs
