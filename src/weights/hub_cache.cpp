#include "weights/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSnapshots = 6;
constexpr std::string_view kRootBegins = "models--";

bool is_root(const fs::path& path) {
  return is_folder(path / "snapshots") && (is_folder(path / "blobs") || is_folder(path / "refs"));
}

std::vector<fs::path> folders_in(const fs::path& folder, std::string_view begins) {
  std::error_code error;
  std::vector<fs::path> out = list_folder(folder, error);
  std::erase_if(out, [&](const fs::path& item) {
    return !is_folder(item) || !item.filename().string().starts_with(begins);
  });
  return out;
}

std::string names_of(const std::vector<fs::path>& folders) {
  std::string out;
  for (size_t i = 0; i < std::min(folders.size(), kMostSnapshots); ++i)
    out += (i ? ", " : "") + folders[i].filename().string();
  return folders.size() > kMostSnapshots ? fmt::format("{} +{} more", out, folders.size() - kMostSnapshots)
                                         : out;
}

// Returns the content of refs/main, or an empty text if it is not a plain name.
std::string main_of(const fs::path& root) {
  char text[128] = {};
  std::ifstream in(root / "refs" / "main", std::ios::binary);
  in.read(text, sizeof text - 1);
  std::string name(text, static_cast<size_t>(in.gcount()));
  name.erase(std::min(name.find_first_of(" \t\r\n"), name.size()));
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return plain ? name : "";
}

}  // namespace

fs::path snapshot_of(const fs::path& path) {
  if (!is_folder(path)) return path;
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  const fs::path folder = whole.has_filename() ? whole : whole.parent_path();
  const fs::path root = folder.filename() == "snapshots" ? folder.parent_path() : folder;
  if (!is_root(root)) {
    const std::vector<fs::path> caches = folders_in(folder, kRootBegins);
    const bool model =
        fs::exists(folder / "model_index.json", ignored) || fs::exists(folder / "config.json", ignored);
    check(caches.empty() || model, ErrorCode::invalid_argument,
          "{}: it is a folder of Hugging Face's caches, {}: name one of them", path.string(),
          names_of(caches));
    return path;
  }
  const std::vector<fs::path> all = folders_in(root / "snapshots", "");
  check(!all.empty(), ErrorCode::not_found,
        "{}: it is a Hugging Face cache without a snapshot: its download was not completed", path.string());
  const std::string main = main_of(root);
  fs::path found = all.size() == 1 ? all.front() : fs::path();
  if (!main.empty() && is_folder(root / "snapshots" / main)) found = root / "snapshots" / main;
  check(!found.empty(), ErrorCode::invalid_argument,
        "{}: it is a Hugging Face cache with several snapshots, {}, none of which is refs/main: name the one "
        "you mean, {}/HASH",
        path.string(), names_of(all), (root / "snapshots").string());
  warn("{}: it is a Hugging Face cache; its snapshot snapshots/{} is used", path.string(),
       found.filename().string());
  return found;
}

}  // namespace tachy
