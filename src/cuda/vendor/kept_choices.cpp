#include "cuda/vendor/kept_choices.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/env.h"
#include "base/sha256.h"

namespace tachy::cuda {

namespace fs = std::filesystem;

std::string kept_choices_folder() {
  const std::string own = env_string("XDG_CACHE_HOME", ""), home = env_string("HOME", "");
  if (!own.empty()) return own + "/tachyscope";
  return home.empty() ? "" : home + "/.cache/tachyscope";
}

std::string kept_choices() {
  constexpr uint64_t kMostBytes = 16 << 20;  // a file of choices has at most 10,000 short lines
  std::error_code ec;
  std::set<fs::path> files;
  for (fs::directory_iterator it(kept_choices_folder(), ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".txt") files.insert(it->path());
  Sha256 hash;
  bool any = false;
  for (const fs::path& file : files) {
    const auto size = fs::file_size(file, ec);
    if (ec || size > kMostBytes) continue;
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    hash.add(file.filename().string()), hash.add(text.str());
    any = true;
  }
  return any ? hash.hex().substr(0, 16) : "";
}

}  // namespace tachy::cuda
