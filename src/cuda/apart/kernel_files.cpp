#include "cuda/apart/kernel_files.h"

#include <algorithm>
#include <optional>

namespace tachy::cuda {
namespace {

namespace fs = std::filesystem;

constexpr int kOwnCode = 500;  // the fitness of a file whose code a GPU runs as it is
constexpr std::string_view kPrefix = "libtachyscope_cuda13_sm", kSuffix = ".so";

std::optional<KernelFile> parse(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  std::string_view text = std::string_view(name).substr(kPrefix.size());
  text.remove_suffix(kSuffix.size());
  KernelFile file{.path = path};
  if (text.ends_with("_ptx")) file.ptx = true, text.remove_suffix(4);
  if (text.ends_with("a") || text.ends_with("f")) file.alone = true, text.remove_suffix(1);
  if (text.empty() || text.size() > 3 || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  for (const char c : text) file.capability = file.capability * 10 + (c - '0');
  return file;
}

}  // namespace

std::vector<fs::path> kernel_folders(const std::string& setting, const fs::path& module) {
  if (!setting.empty()) return {setting};
  const fs::path here = module.parent_path();
  return {
      here,                                  // a build folder, a bundle
      here / "../lib/tachyscope/cuda13",     // bin/tachyscope of a prefix
      here / "../../lib/tachyscope/cuda13",  // libexec/tachyscope/tachyscope-serve
      here / "../tachyscope_cuda13/lib",     // site-packages/tachyscope/*.so
      here / "../../tachyscope_cuda13/lib",  // site-packages/tachyscope/bin/tachyscope
  };
}

std::vector<KernelFile> kernel_files(std::span<const fs::path> folders) {
  for (const fs::path& folder : folders) {
    std::vector<KernelFile> found;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (auto file = parse(at->path())) found.push_back(*std::move(file));
    std::ranges::sort(found, {}, [](const KernelFile& f) { return f.path.string(); });
    if (!found.empty()) return found;
  }
  return {};
}

int fitness(const KernelFile& file, int capability) {
  if (file.capability == capability) return 1000;
  if (capability / 10 == 9) return 0;  // the tables of ops count on Hopper's own kernels there
  if (file.capability > capability) return 0;
  if (!file.alone && file.capability / 10 == capability / 10) return kOwnCode + file.capability % 10;
  return file.ptx ? file.capability : 0;  // the driver compiles it: minutes at the first start
}

const KernelFile* choose_kernels(std::span<const KernelFile> files, std::span<const int> capabilities) {
  if (capabilities.empty()) return nullptr;
  const KernelFile* best = nullptr;
  int most = 0;
  for (const KernelFile& file : files) {
    int value = fitness(file, capabilities.front());
    if (value == 0) continue;
    const bool all = std::ranges::all_of(capabilities, [&](int c) { return fitness(file, c) >= kOwnCode; });
    if (all) value += 10000;
    if (value > most) most = value, best = &file;
  }
  return best;
}

std::string architectures_of(std::span<const KernelFile> files) {
  std::vector<const KernelFile*> sorted;
  for (const KernelFile& file : files) sorted.push_back(&file);
  std::ranges::sort(sorted, {}, [](const KernelFile* f) { return f->capability; });
  std::string text;
  for (const KernelFile* f : sorted)
    text += (text.empty() ? "" : " ") + std::to_string(f->capability) + (f->alone ? "a" : "");
  return text;
}

}  // namespace tachy::cuda
